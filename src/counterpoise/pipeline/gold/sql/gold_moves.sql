-- What each move brought: the ten minutes before it began beside the ten after it ended, in bytes/s.
with move as (
    select
        o.day, o.id, o.poll_id, o.at, o.bundle, o.source, o.destination, o.status, o.error,
        d.reason, d.sentence, o.started_at, o.ended_at,
        (o.ended_at_ms - o.started_at_ms) / 1000e0   as seconds,
        o.started_at - interval 10 minutes           as from_at,
        o.ended_at + interval 10 minutes             as until_at
    from outcomes o left join decisions d on d.id = o.id
),
carried as (
    select poll_id, at, broker, msg_throughput_in + msg_throughput_out as bytes_per_s
    from broker_loads_around
    where msg_throughput_in + msg_throughput_out < double('infinity')
),
poll as (
    select at, max(bytes_per_s) / avg(bytes_per_s) as max_over_mean
    from carried group by poll_id, at having avg(bytes_per_s) > 0
),
evenness as (
    select
        id,
        avg(if(poll.at < started_at, max_over_mean, null))  as max_over_mean_before,
        avg(if(poll.at > ended_at, max_over_mean, null))    as max_over_mean_after
    from move join poll on poll.at between from_at and until_at
    group by id
),
ends as (
    select
        id,
        avg(if(broker = source and carried.at < started_at, bytes_per_s, null))
            as source_before,
        avg(if(broker = source and carried.at > ended_at, bytes_per_s, null))
            as source_after,
        avg(if(broker = destination and carried.at < started_at, bytes_per_s, null))
            as destination_before,
        avg(if(broker = destination and carried.at > ended_at, bytes_per_s, null))
            as destination_after
    from move join carried
        on broker in (source, destination) and carried.at between from_at and until_at
    group by id
)
select * except (from_at, until_at)
from move left join evenness using (id) left join ends using (id)
