"""What holds for Counterpoise whatever it is shown."""

import copy
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decide.shedding.clusters import Line, plan
from tests.decide.shedding.strategies import lines, odd, shuffled

NAME = "Counterpoise"
FEW = settings(deadline=None, max_examples=60)


@FEW
@given(lines(odd), st.integers(0, 2**32))
def test_no_plan_depends_on_the_order_of_its_input(data: Line, seed: int) -> None:
    first = plan(NAME, data, counterpoiseMovePrice=0.0)
    again = plan(NAME, shuffled(copy.deepcopy(data), Random(seed)), counterpoiseMovePrice=0.0)
    assert repr(first.to_json()) == repr(again.to_json())
    assert first.memory.to_json() == again.memory.to_json()


@FEW
@given(lines(odd))
def test_only_bundles_that_may_move_go_and_only_to_another_broker(data: Line) -> None:
    made = plan(NAME, data, counterpoiseMovePrice=0.0)
    bundles = [each.bundle for each in made.decisions]
    assert len(bundles) == len(set(bundles))
    for each in made.decisions:
        assert each.bundle in data["brokerData"][each.source]["localData"]["bundles"]
        assert each.bundle not in data["recentlyUnloadedBundles"]
        assert not each.bundle.startswith("pulsar/host")
        assert each.destination in data["brokerData"]
        assert each.destination != each.source
