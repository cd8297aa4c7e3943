"""The weights as columns: in the order of the resources, and read-only."""

import math

import pytest

from counterpoise.decide.weights import ResourceWeights

WEIGHTS = ResourceWeights(cpu=2, memory=3, direct_memory=4, bandwidth_in=5, legacy_bandwidth_out=6)


def test_weights_stand_in_the_order_of_the_resources() -> None:
    assert WEIGHTS.extensible.tolist() == [2, 3, 4, 5, 6]
    modular = WEIGHTS.modular.tolist()
    assert math.isnan(modular.pop(1))
    assert modular == [2, 4, 5, 6]


def test_no_caller_can_change_the_shared_weights() -> None:
    for column in (WEIGHTS.modular, WEIGHTS.extensible):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 9.0
