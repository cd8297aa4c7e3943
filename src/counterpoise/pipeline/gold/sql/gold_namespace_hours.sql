-- What each namespace carried in each hour: the sum of its bundles' means.
select
    day,
    hour,
    namespace,
    count(*)                 as bundles,
    sum(msg_rate_in)         as msg_rate_in,
    sum(msg_rate_out)        as msg_rate_out,
    sum(msg_throughput_in)   as msg_throughput_in,
    sum(msg_throughput_out)  as msg_throughput_out,
    sum(bytes_per_s)         as bytes_per_s,
    sum(topics)              as topics
from gold_bundle_hours
group by day, hour, namespace
