-- The hundred bundles that carried the most in the day, and their part of the cluster's load.
select
    day, rank, bundle, namespace, broker, bytes_per_s, bytes_per_s_max, busiest_hour, part
from (
    select
        *,
        cast(row_number() over (partition by day order by bytes_per_s desc, bundle) as bigint) as rank,
        try_divide(bytes_per_s, sum(bytes_per_s) over (partition by day)) as part
    from gold_bundle_days
)
where rank <= 100
