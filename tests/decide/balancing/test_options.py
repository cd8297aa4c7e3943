"""The settings around a strategy: what none of them may be."""

import pytest

from counterpoise.decide.balancing.options import BalanceOptions
from counterpoise.names.options import ConfigError, from_conf


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("loadBalancerSheddingIntervalMinutes", 1),
        ("loadBalancerSheddingGracePeriodMinutes", 0),
        ("loadBalancerReportUpdateMinIntervalMillis", 10),
        ("statsUpdateFrequencyInSecs", 1),
    ],
)
def test_less_than_the_least_is_refused(name: str, least: int) -> None:
    from_conf(BalanceOptions, {name: str(least)})
    with pytest.raises(ConfigError, match=f"{name}: .*from {least} to"):
        from_conf(BalanceOptions, {name: str(least - 1)})
