"""What series come to: the sums of bundles, and the usage of brokers."""

import numpy as np
import pytest

from counterpoise.load.rows import RATES, RESOURCES
from counterpoise.pipeline.prometheus.piece import SeriesGroups, SeriesSums, piece_of
from counterpoise.pipeline.prometheus.series import SeriesPlace
from counterpoise.pipeline.prometheus.time_grid import TimeGrid

NAN = float("nan")
NOTHING = SeriesSums((), np.zeros((0, 3)), np.zeros((0, 3), np.int64))


def test_of_two_series_of_a_topic_on_a_broker_one_counts() -> None:
    """The broker came back with another address, or two servers scrape it."""
    one, other = (SeriesPlace("b:1", "t/n/0x0_0x1", topic) for topic in ("x", "y"))
    places = [one, None, other, one]
    values = np.array([[1.0, NAN, NAN], [90.0, 90.0, 90.0], [10.0, NAN, NAN], [1.5, 2.0, NAN]])
    found = SeriesGroups(places).summed(values)
    assert found.pairs == (("b:1", "t/n/0x0_0x1"),)
    assert found.sums.tolist() == [[11.0, 2.0, 0.0]]
    assert found.counts.tolist() == [[2, 1, 0]]
    assert np.isnan(values[0, 1:]).all(), "what is given is not changed"


def test_a_broker_that_uses_nothing_is_known_and_one_without_a_value_is_not() -> None:
    """One that is scraped twice uses what either says."""
    idle = SeriesSums((("b:1", ""),), np.array([[0.0, 0.0, 8.0]]), np.array([[1, 0, 2]]))
    usage = [idle] + [NOTHING] * (len(RESOURCES) - 1)
    made = piece_of(TimeGrid(0, 1, 3), [NOTHING] * len(RATES), {}, usage, NOTHING)
    assert made.brokers == ("b:1",)
    first, *rest = made.usage.values()
    assert first.tolist() == [pytest.approx([0.0, NAN, 4.0], nan_ok=True)]
    assert all(np.isnan(each).all() for each in rest)
