-- What a forecast of a bundle's load needs: its level in the day, its trend and its shape by the
-- hour of the day over the week that ends with the day, and how far measurements are from these.
with hours as (
    select weeks.day, bundle, hour, hour(hour) as hour_of_day, measurements, bytes_per_s
    from gold_bundle_hours_of_weeks as h join weeks on h.day between weeks.first_day and weeks.day
),
week as (
    select
        day, bundle,
        avg(bytes_per_s)                                         as mean,
        coalesce(regr_slope(bytes_per_s, unix_seconds(hour) / 3600e0), 0e0) as trend,
        count(*)                                                 as hours
    from hours group by day, bundle
),
shape as (
    select day, bundle, hour_of_day, coalesce(try_divide(avg(bytes_per_s), any_value(mean)), 1e0) as factor
    from hours join week using (day, bundle)
    group by day, bundle, hour_of_day
),
level as (
    select day, bundle, bytes_per_s as level, measurements from gold_bundle_days
),
residual as (
    select
        day, bundle,
        percentile(
            coalesce(try_divide(msg_throughput_in + msg_throughput_out, level * factor) - 1, 0e0),
            array(0.05, 0.5, 0.95, 0.99)
        ) as quantiles
    from bundle_loads
    join level using (day, bundle)
    join shape using (day, bundle)
    where hour_of_day = hour(at)
        and msg_throughput_in + msg_throughput_out < double('infinity')
    group by day, bundle
)
select
    day, bundle, level, trend, hours, measurements,
    transform(sequence(0, 23), h -> coalesce(factors[h], 1e0)) as hour_factors,
    quantiles[0]                                as residual_p05,
    quantiles[1]                                as residual_p50,
    quantiles[2]                                as residual_p95,
    quantiles[3]                                as residual_p99
from level
join week using (day, bundle)
join residual using (day, bundle)
join (
    select day, bundle, map_from_entries(collect_list(struct(hour_of_day, factor))) as factors
    from shape group by day, bundle
) using (day, bundle)
