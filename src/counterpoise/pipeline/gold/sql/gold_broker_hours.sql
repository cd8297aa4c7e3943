-- What each broker carried and used in each hour, over the polls that it answered.
select
    day,
    date_trunc('hour', at)                          as hour,
    broker,
    count(*)                                        as polls,
    avg(msg_rate_in)                                as msg_rate_in,
    avg(msg_rate_out)                               as msg_rate_out,
    avg(msg_throughput_in)                          as msg_throughput_in,
    avg(msg_throughput_out)                         as msg_throughput_out,
    avg(msg_throughput_in + msg_throughput_out)     as bytes_per_s,
    max(msg_throughput_in + msg_throughput_out)     as bytes_per_s_max,
    avg(bundles)                                    as bundles,
    avg(topics)                                     as topics,
    avg(100 * try_divide(cpu_usage, cpu_limit))     as cpu_percent,
    max(100 * try_divide(cpu_usage, cpu_limit))     as cpu_percent_max,
    avg(100 * try_divide(memory_usage, memory_limit)) as memory_percent,
    avg(100 * try_divide(direct_memory_usage, direct_memory_limit)) as direct_memory_percent
from broker_loads
where msg_throughput_in + msg_throughput_out < double('infinity')
group by day, hour, broker
