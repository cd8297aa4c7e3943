"""The split algorithms by the names that configuration and the admin API give them."""

from collections.abc import Mapping

from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.decide.splitting.positions import specified_positions_divide
from counterpoise.decide.splitting.range_equally import range_equally_divide
from counterpoise.decide.splitting.request import SplitAlgorithm
from counterpoise.decide.splitting.topic_count import topic_count_equally_divide
from counterpoise.decide.splitting.traffic import flow_or_qps_equally_divide

ALGORITHMS: Mapping[str, SplitAlgorithm] = {
    "range_equally_divide": range_equally_divide,
    "topic_count_equally_divide": topic_count_equally_divide,
    "specified_positions_divide": specified_positions_divide,
    "flow_or_qps_equally_divide": flow_or_qps_equally_divide,
}


def algorithm(name: str | None, options: SplitOptions) -> SplitAlgorithm:
    """The algorithm of this name; the configured default for none or an unknown one.

    As in Pulsar, except that the flow algorithm works whatever the default is, where Pulsar 4.0.7
    responds with a ClassCastException unless flow is the configured default.
    """
    return (
        ALGORITHMS.get(name or "")
        or ALGORITHMS.get(options.default_algorithm)
        or range_equally_divide
    )
