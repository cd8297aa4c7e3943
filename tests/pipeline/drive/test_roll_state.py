"""How far a rolling restart is: as a sentence, and where its file cannot be read."""

from dataclasses import replace
from pathlib import Path

import pytest

from counterpoise.decide.balancing.restarts import RestartStage
from counterpoise.pipeline.drive.action_trail import ActionTrail
from counterpoise.pipeline.drive.roll_state import RolledBroker, RollState
from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.location import open_location


@pytest.mark.parametrize("damage", ["{", "[]", "{}", '{"brokers": [{"stage": "?"}]}'])
def test_a_state_that_cannot_be_read_is_named_with_the_way_on(tmp_path: Path, damage: str) -> None:
    (tmp_path / "rolling-restart.json").write_text(damage)
    with pytest.raises(HistoryFaultError, match=r"rolling-restart.json is not .*: remove it, and"):
        ActionTrail(open_location(tmp_path)).roll()


def test_a_sentence_says_how_far_it_is() -> None:
    stages = [RestartStage.RESTARTED, *RestartStage]
    brokers = tuple(RolledBroker(f"b{n}", stage) for n, stage in enumerate(stages))
    state = RollState("x", 1, "ann", brokers)
    now = "2 of 5 brokers restarted; b2 is draining; b3 is restarting"
    assert state.sentence() == f"rolling restart x by ann is under way: {now}"
    ended = replace(state, ended_ms=1)
    assert ended.sentence() == f"rolling restart x by ann has ended: {now}"
    given_up = replace(ended, abandoned=True)
    assert given_up.sentence() == "rolling restart x by ann was given up: 2 of 5 brokers restarted"
