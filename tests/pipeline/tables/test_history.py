"""One writer to a history: an earlier one is refused at its next commit, to whatever table."""

from pathlib import Path

import pytest

from counterpoise.decide.balancing.moves import RoundMemory
from counterpoise.pipeline.tables.faults import SupersededError
from counterpoise.pipeline.tables.history import take_over
from counterpoise.pipeline.tables.journal import JournalWriter
from counterpoise.pipeline.tables.location import open_location
from counterpoise.pipeline.tables.reports import land
from tests.pipeline.tables.test_reports import a_poll


def test_a_writer_that_another_took_over_from_is_refused(tmp_path: Path) -> None:
    location = open_location(tmp_path)
    first = take_over(location)
    land(first, a_poll(1, 5))
    second = take_over(location)
    with pytest.raises(SupersededError, match="has taken"):
        land(first, a_poll(2, 5))
    with pytest.raises(SupersededError):
        JournalWriter(first).record_memory(1, RoundMemory())
    with pytest.raises(SupersededError):
        first.expect_held()
    land(second, a_poll(2, 5))
    second.expect_held()
