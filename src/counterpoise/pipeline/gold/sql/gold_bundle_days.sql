-- What each bundle carried in the day, its busiest hour, and its part of the cluster.
select
    day,
    bundle,
    namespace,
    max_by(broker, hour)                                                as broker,
    sum(measurements)                                                   as measurements,
    sum(msg_rate_in * measurements) / sum(measurements)                 as msg_rate_in,
    sum(msg_rate_out * measurements) / sum(measurements)                as msg_rate_out,
    sum(msg_throughput_in * measurements) / sum(measurements)           as msg_throughput_in,
    sum(msg_throughput_out * measurements) / sum(measurements)          as msg_throughput_out,
    sum(bytes_per_s * measurements) / sum(measurements)                 as bytes_per_s,
    max(bytes_per_s_max)                                                as bytes_per_s_max,
    max_by(hour, bytes_per_s)                                           as busiest_hour,
    max(topics)                                                         as topics
from gold_bundle_hours
group by day, bundle, namespace
