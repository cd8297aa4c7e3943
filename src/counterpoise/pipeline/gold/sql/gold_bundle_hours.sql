-- What each bundle carried in each hour: means over its measurements, and the highest.
select
    day,
    date_trunc('hour', at)                       as hour,
    bundle,
    substring_index(bundle, '/', 2)              as namespace,
    max_by(broker, at)                           as broker,
    count(distinct broker)                       as brokers,
    count(*)                                     as measurements,
    avg(msg_rate_in)                             as msg_rate_in,
    avg(msg_rate_out)                            as msg_rate_out,
    avg(msg_throughput_in)                       as msg_throughput_in,
    avg(msg_throughput_out)                      as msg_throughput_out,
    avg(msg_throughput_in + msg_throughput_out)  as bytes_per_s,
    max(msg_throughput_in + msg_throughput_out)  as bytes_per_s_max,
    max(topics)                                  as topics,
    max(producers)                               as producers,
    max(consumers)                               as consumers
from bundle_loads
-- Some brokers report NaN or infinity; NaN is above infinity here.
where msg_throughput_in + msg_throughput_out < double('infinity')
group by day, hour, bundle
