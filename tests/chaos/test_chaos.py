"""The short form of ``make chaos``: a few faults for each manager, always the same."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from counterpoise.ownership.protocols import PROTOCOLS
from tests.chaos.faults import Kind, plan
from tests.chaos.judges import complaints, figures
from tests.chaos.run import Run, Terms

pytestmark = [pytest.mark.zookeeper, pytest.mark.client]

SHORT = (Kind.KILL_LEADER, Kind.TRANSFER, Kind.SPLIT, Kind.FREEZE)


@pytest.mark.parametrize("manager", PROTOCOLS)
def test_nothing_is_lost_whatever_befalls_a_broker(manager: str, tmp_path: Path) -> None:
    printed: list[str] = []
    faults = islice(plan(1, SHORT), len(SHORT))
    terms = Terms(manager, seconds=60, every_s=0, session_s=1.5, topics_each_bundle=1)
    history = Run(terms, faults, tmp_path, printed.append).run()
    found = complaints(history)
    assert not found, "\n".join([*printed, figures(history), *found])
    assert len(history.faults) == len(SHORT) + 1, "a freeze is seen twice: it comes, it ends"
