"""Averages: Pulsar's arithmetic, for columns of bundles."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.load.average import BundleData, TimeAverageMessageData, fold_samples

rates = st.floats(0, 1e12) | st.sampled_from([0.0, 1e-9, 50000.0, 1 / 3])


def test_an_exact_mean_until_the_limit_then_an_exponential_one() -> None:
    """TimeAverageMessageDataTest: three samples at most, fed 1 to 5."""
    counts, values, seen = np.zeros(1, dtype=np.int64), np.zeros(1), []
    for value in (1.0, 2.0, 3.0, 4.0, 5.0):
        counts, values = fold_samples(counts, values, np.array([value]), 3)
        seen.append(values[0])
    assert seen == pytest.approx([1, 1.5, 2, 8 / 3, 31 / 9])
    assert counts[0] == 3


def test_what_is_assumed_of_an_unseen_bundle() -> None:
    assumed = BundleData.unseen()
    for term, most in ((assumed.short_term_data, 10), (assumed.long_term_data, 1000)):
        assert term == TimeAverageMessageData(most, 0, 50000.0, 50000.0, 50.0, 50.0)
        assert (term.throughput, term.rate) == (100000.0, 100.0)
    assert assumed.topics == 0


@given(st.lists(rates, min_size=1, max_size=30), st.integers(1, 12))
def test_the_fold_is_the_formula_however_many_samples_came(
    samples: list[float], max_samples: int
) -> None:
    counts, values, exact = np.zeros(1, dtype=np.int64), np.array([50.0]), Fraction(0)
    for number, sample in enumerate(samples, 1):
        counts, values = fold_samples(counts, values, np.array([sample]), max_samples)
        count = min(number, max_samples)
        exact = ((count - 1) * exact + Fraction(sample)) / count
        assert counts[0] == count
    assert values[0] == pytest.approx(float(exact), rel=1e-12)


def test_the_fold_takes_one_figure_of_many_bundles() -> None:
    counts = np.array([0, 9, 10])
    found = fold_samples(counts, np.array([50.0, 10.0, 10.0]), np.array([1.0, 20.0, 20.0]), 10)
    assert found.num_samples.tolist() == [1, 10, 10]
    assert found.values.tolist() == [1.0, 11.0, 11.0]
