"""Averages: Pulsar's fold, for one bundle and for columns, the same to the last bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.load.average import BundleData, TimeAverageMessageData, fold_samples
from counterpoise.load.broker_average import TimeAverageBrokerData
from counterpoise.load.report import NamespaceBundleStats

rates = st.floats(0, 1e12) | st.sampled_from([0.0, 1e-9, 50000.0, 1 / 3])


def test_an_exact_mean_until_the_limit_then_an_exponential_one() -> None:
    """TimeAverageMessageDataTest: three samples at most, fed 1 to 5."""
    average, seen = TimeAverageMessageData(max_samples=3), []
    for value in (1.0, 2.0, 3.0, 4.0, 5.0):
        average = average.updated(NamespaceBundleStats(value, value, value, value))
        seen.append(average.msg_rate_in)
    assert seen == pytest.approx([1, 1.5, 2, 8 / 3, 31 / 9])
    assert average.num_samples == 3
    assert average.rate == average.msg_rate_in + average.msg_rate_out
    assert average.throughput == 2 * average.msg_throughput_in


def test_the_first_sample_replaces_what_is_assumed_of_an_unseen_bundle() -> None:
    assumed = BundleData.unseen()
    assert assumed.short_term_data.throughput == 100000.0
    assert assumed.long_term_data.rate == 100.0
    seen = assumed.updated(NamespaceBundleStats(msg_rate_in=3.0, topics=4))
    assert seen.short_term_data.msg_rate_in == seen.long_term_data.msg_rate_in == 3.0
    assert seen.short_term_data.throughput == 0.0
    assert (seen.topics, seen.short_term_data.max_samples) == (4, 10)
    assert seen.long_term_data.max_samples == 1000


@given(st.lists(st.tuples(rates, rates, rates, rates), min_size=1, max_size=30), st.integers(1, 12))
def test_the_fold_over_columns_is_the_scalar_fold_bit_for_bit(
    samples: list[tuple[float, float, float, float]], max_samples: int
) -> None:
    scalar = TimeAverageMessageData(max_samples)
    counts, values = np.zeros(1, dtype=np.int64), np.zeros((1, 4))
    for rate_in, throughput_in, rate_out, throughput_out in samples:
        scalar = scalar.updated(
            NamespaceBundleStats(rate_in, throughput_in, rate_out, throughput_out)
        )
        sample = np.array([[rate_in, rate_out, throughput_in, throughput_out]])
        counts, values = fold_samples(counts, values, sample, max_samples)
    assert counts[0] == scalar.num_samples
    assert values[0].tolist() == [
        scalar.msg_rate_in,
        scalar.msg_rate_out,
        scalar.msg_throughput_in,
        scalar.msg_throughput_out,
    ]


def test_the_fold_takes_one_figure_of_many_bundles() -> None:
    counts = np.array([0, 9, 10])
    found = fold_samples(counts, np.array([50.0, 10.0, 10.0]), np.array([1.0, 20.0, 20.0]), 10)
    assert found.num_samples.tolist() == [1, 10, 10]
    assert found.values.tolist() == [1.0, 11.0, 11.0]


def test_a_brokers_average_sums_its_bundles_and_assumes_the_default_for_unknown_ones() -> None:
    """TimeAverageBrokerDataTest: reset sums what is known, and adds the default otherwise."""
    known = {
        "a": BundleData.empty().updated(NamespaceBundleStats(1, 2, 3, 4)),
        "b": BundleData.empty().updated(NamespaceBundleStats(10, 20, 30, 40)),
    }
    default = NamespaceBundleStats(50.0, 50000.0, 51.0, 50001.0)
    found = TimeAverageBrokerData.of(["a", "b", "unseen"], known, default)
    assert found.short_term_msg_rate_in == found.long_term_msg_rate_in == 61
    assert found.short_term_msg_throughput_in == found.long_term_msg_throughput_in == 50022
    assert found.short_term_msg_rate_out == 84
    assert found.long_term_msg_throughput_out == 50045
    assert TimeAverageBrokerData.of([], known, default) == TimeAverageBrokerData()
