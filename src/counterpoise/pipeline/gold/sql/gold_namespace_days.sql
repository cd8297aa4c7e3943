-- What each namespace carried in the day: the mean of its hours, and the busiest of them.
select
    day,
    namespace,
    max(bundles)              as bundles,
    count(*)                  as hours,
    avg(msg_rate_in)          as msg_rate_in,
    avg(msg_rate_out)         as msg_rate_out,
    avg(msg_throughput_in)    as msg_throughput_in,
    avg(msg_throughput_out)   as msg_throughput_out,
    avg(bytes_per_s)          as bytes_per_s,
    max(bytes_per_s)          as bytes_per_s_max,
    max_by(hour, bytes_per_s) as busiest_hour
from gold_namespace_hours
group by day, namespace
