"""Usage percentages: Pulsar's number types decide which side of a threshold a broker is on."""

import math

import numpy as np
import pytest

from counterpoise.load.usage import RESOURCES, ResourceUsage, percent_of, weighted_max


@pytest.mark.parametrize(
    ("usage", "limit", "percent"),
    [
        (80.0, 100.0, 80.0),
        (33.3, 100.0, 33.29999923706055),  # rounded to 32 bits, then widened
        (999.0, 1000.0, 99.9000015258789),
        (250.0, 100.0, 250.0),  # not clamped
        (5.0, 0.0, 0.0),
        (-1.0, -1.0, 0.0),
        (0.0, 0.0, 0.0),
    ],
)
def test_percent_is_rounded_to_32_bits_as_in_java(
    usage: float, limit: float, percent: float
) -> None:
    assert ResourceUsage(usage, limit).percent == percent


def test_percent_keeps_nan_and_overflow() -> None:
    found = percent_of(np.array([math.nan, 1e300, 1.0]), np.array([100.0, 1.0, math.nan]))
    assert math.isnan(found[0])
    assert found[1] == math.inf
    assert found[2] == 0.0


def test_weighted_max_is_double_arithmetic_over_widened_percentages() -> None:
    percent = np.array([[33.3, 90.0, 50.0, 10.0, 20.0]], dtype=np.float32)
    weights = np.array([1.0, math.nan, 0.0, 1.0, 1.0])
    assert weighted_max(percent, weights)[0] == 0.33299999237060546
    with_heap = np.array([1.0, 1.0, 0.0, 1.0, 1.0])
    assert weighted_max(percent, with_heap)[0] == 0.9


def test_weighted_max_passes_over_nan() -> None:
    percent = np.array([[math.nan, 0, 0, 40, 30], [math.nan] * 5], dtype=np.float32)
    found = weighted_max(percent, np.array([1.0, math.nan, 0.0, 1.0, 1.0]))
    assert found.tolist() == [0.4, -math.inf]


def test_resources_are_named_as_in_the_report() -> None:
    assert RESOURCES == ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
