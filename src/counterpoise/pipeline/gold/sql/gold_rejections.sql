-- Why bundles stayed: how often each rule refused, and the sentence of its highest figure.
select
    day,
    rule,
    setting,
    count(*)                           as times,
    count(distinct subject)            as subjects,
    count(distinct poll_id)            as rounds,
    max(value)                         as highest,
    max_by(limit, coalesce(value, 0))  as limit,
    max_by(sentence, struct(coalesce(value, 0), sentence)) as sentence
from rejections
group by day, rule, setting
