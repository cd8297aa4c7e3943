-- The hundred bundles that carried the most in the day, and their part of the cluster's load.
select
    rank, bundle, namespace, broker, bytes_per_s, bytes_per_s_max, busiest_hour, part
from (
    select
        *,
        cast(row_number() over (order by bytes_per_s desc, bundle) as bigint) as rank,
        try_divide(bytes_per_s, sum(bytes_per_s) over ())       as part
    from gold_bundle_days
)
where rank <= 100
