"""All that was ever seen of a history: what the judges compare with what is there, and replay."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from counterpoise.decide.balancing.moves import Round, RoundMemory
from counterpoise.decide.balancing.round import BalancingStrategy, decide
from counterpoise.load.fold import Batch, FoldState, fold, merged
from counterpoise.load.rows import COLUMNS, ReportRows
from counterpoise.pipeline.clock import EVER
from counterpoise.pipeline.tables.history import TablesReader
from counterpoise.pipeline.tables.journal import Journal
from counterpoise.pipeline.tables.reports import read_reports
from counterpoise.pipeline.tables.schema import JournalKind, columns_of
from counterpoise.pipeline.tables.states import current_states, read_state
from tests.load.test_fold import assert_same

Rows = dict[str, Mapping[str, Any]]


def polls_of(reader: TablesReader) -> dict[int, ReportRows]:
    """The polls of a history, each with its rows in order."""
    polls: dict[int, ReportRows] = {}
    parts = [columns_of(part, tuple(COLUMNS)) for part in read_reports(reader, -1, EVER)]
    for poll_id in sorted({each for part in parts for each in part["poll_id"].tolist()}):
        chosen = [
            ReportRows(part).take(part["poll_id"] == poll_id)
            for part in parts
            if (part["poll_id"] == poll_id).any()
        ]
        columns = {name: np.concatenate([one[name] for one in chosen]) for name in COLUMNS}
        order = np.argsort(columns["seq"], kind="stable")
        polls[poll_id] = ReportRows(columns).take(order)
    return polls


@dataclass
class Story:
    """All that was ever seen of a history."""

    polls: dict[int, ReportRows] = field(default_factory=dict)
    decisions: Rows = field(default_factory=dict)
    outcomes: Rows = field(default_factory=dict)
    memories: Rows = field(default_factory=dict)
    rounds: dict[int, Round] = field(default_factory=dict)
    losses: list[frozenset[int]] = field(default_factory=list)
    """Polls whose file was damaged, and is set aside, in the order of the damages."""

    @property
    def lost(self) -> frozenset[int]:
        """All of them."""
        return frozenset().union(*self.losses)

    def look(self, reader: TablesReader) -> None:
        """Take in what is there now: nothing is gone, twice there, or another than it was."""
        now = polls_of(reader)
        gone = self.polls.keys() - now.keys() - self.lost
        assert not gone, f"polls are gone: {sorted(gone)}"
        for poll_id, rows in now.items():
            before = self.polls.setdefault(poll_id, rows)
            assert len(before) == len(rows), f"poll {poll_id} has {len(rows)} rows"
            assert (before["digest"] == rows["digest"]).all(), f"poll {poll_id} is another"
            assert len(set(rows["seq"].tolist())) == len(rows), f"poll {poll_id} is there twice"
        journal = Journal(reader)
        for kind, key, known in (
            (JournalKind.DECISION, "id", self.decisions),
            (JournalKind.OUTCOME, "id", self.outcomes),
            (JournalKind.MEMORY, "poll_id", self.memories),
        ):
            rows_of_kind = list(journal.rows(kind))
            there = {str(row[key]): row for row in rows_of_kind}
            assert len(there) == len(rows_of_kind), f"a {kind} is there twice"
            assert known.keys() <= there.keys(), f"a {kind} is gone"
            for name, row in there.items():
                assert known.setdefault(name, row) == row, f"{kind} {name} is another"
        for row in journal.rows(JournalKind.ROUND):
            made = journal.round(row["poll_id"])
            assert made is not None
            assert self.rounds.setdefault(made.poll_id, made) == made
            assert len(made.moves) == row["decisions"], "a round has all its decisions"

    def judge_decisions(self, reader: TablesReader, by: BalancingStrategy) -> int:
        """Each round is what this process decides on the same; gives how many there are.

        A poll that was damaged once it was folded counts until the fold begins again, and from
        then on it does not: a round may be on the states with it, or on those without.
        """
        checked, folded = 0, current_states(reader)
        gone = [frozenset[int]().union(*self.losses[:n]) for n in range(len(self.losses) + 1)]
        states = dict.fromkeys(gone, FoldState.empty())
        for poll_id, rows in sorted(self.polls.items()):
            for without in states:
                if poll_id not in without:
                    states[without] = fold(states[without], Batch.of(rows))
            known = [merged([state]) for state in states.values()]
            if made := self.rounds.get(poll_id):
                memory = self._memory_before(poll_id)
                again = [decide(state, memory, by) for state in known]
                assert made in again, f"{poll_id} is not what it says:\n{made}\n, but\n{again}"
                checked += 1
            if folded and poll_id == folded.up_to:
                shards = [read_state(reader.location, file) for file in folded.files]
                assert any(_equal(merged(shards), state) for state in known)
        assert checked == len(self.rounds), "each round is of a poll that was landed"
        return checked

    def _memory_before(self, poll_id: int) -> RoundMemory:
        earlier = [row for row in self.memories.values() if row["poll_id"] < poll_id]
        if not earlier:
            return RoundMemory()
        latest = max(earlier, key=lambda row: int(row["poll_id"]))
        return RoundMemory.from_json(json.loads(latest["memory"]))


def _equal(one: FoldState, other: FoldState) -> bool:
    try:
        assert_same(one, other)
    except AssertionError:
        return False
    return True
