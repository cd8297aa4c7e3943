-- What is missing in the record: brokers that did not answer, polls that failed, and silence
-- between two polls for more than three times the usual.
select day, 'broker' as kind, broker, note, count(*) as polls, min(at) as first_at, max(at) as last_at
from gaps
group by day, broker, note, date_trunc('hour', at)
union all
select day, 'poll', '', note, count(*), min(at), max(at)
from polls
where note <> ''
group by day, note, date_trunc('hour', at)
union all
select day, 'silence', '', '', 0L, before, at
from (
    select
        day, at, before,
        unix_millis(at) - unix_millis(before) as pause_ms,
        median(unix_millis(at) - unix_millis(before)) over (partition by day) as usual_ms
    from (select day, at, lag(at) over (partition by day order by poll_id) as before from polls)
)
where pause_ms > 3 * usual_ms
