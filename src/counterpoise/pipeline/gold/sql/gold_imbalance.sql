-- How uneven the brokers were at each poll: the most loaded broker by the mean of all; 1 is even.
select
    day,
    poll_id,
    at,
    count(*)                                            as brokers,
    max_by(broker, struct(bytes_per_s, broker))         as hottest,
    avg(bytes_per_s)                                    as mean_bytes_per_s,
    max(bytes_per_s)                                    as max_bytes_per_s,
    coalesce(try_divide(max(bytes_per_s), avg(bytes_per_s)), 1e0)        as max_over_mean,
    coalesce(try_divide(stddev_pop(bytes_per_s), avg(bytes_per_s)), 0e0) as deviation
from (
    select day, poll_id, at, broker, msg_throughput_in + msg_throughput_out as bytes_per_s
    from broker_loads
)
where bytes_per_s < double('infinity')
group by day, poll_id, at
