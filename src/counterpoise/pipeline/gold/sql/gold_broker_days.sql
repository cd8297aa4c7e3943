-- What each broker carried and used in the day, and how long it was the hottest or overloaded.
select
    day,
    broker,
    count(*)                                      as polls,
    avg(bytes_per_s)                              as bytes_per_s,
    max(bytes_per_s)                              as bytes_per_s_max,
    avg(bundles)                                  as bundles,
    avg(cpu_percent)                              as cpu_percent,
    max(cpu_percent)                              as cpu_percent_max,
    count_if(broker = hottest)                    as polls_hottest,
    count_if(bytes_per_s > 1.25 * mean_bytes_per_s) as polls_above_mean,
    max(try_divide(bytes_per_s, mean_bytes_per_s))  as max_over_mean
from (
    select
        day, broker, poll_id, bundles,
        msg_throughput_in + msg_throughput_out    as bytes_per_s,
        100 * try_divide(cpu_usage, cpu_limit)    as cpu_percent
    from broker_loads
    where msg_throughput_in + msg_throughput_out < double('infinity')
)
join (select poll_id, hottest, mean_bytes_per_s from gold_imbalance) using (poll_id)
group by day, broker
