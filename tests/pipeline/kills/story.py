"""What was there once: by it the judges tell what must be there still, and what follows from it.

Who lays hands on a history changes what the balancer goes on from. So there are epochs: in each it
folds what was folded before up to the state that it found, and what is there behind that.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from counterpoise.decide.balancing.moves import Round, RoundMemory
from counterpoise.decide.balancing.round import Strategy, decide
from counterpoise.load.fold import Batch, FoldState, fold, merged
from counterpoise.pipeline.history.layout import files
from counterpoise.pipeline.history.names import extent, file_of
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.history.tables import HistoryTables, read_table
from counterpoise.pipeline.stream.states import complete, read_state, state_name
from tests.load.test_fold import assert_same
from tests.pipeline.landed import read_landed


@dataclass
class Epoch:
    """What the balancer went on from, since somebody changed that last."""

    included: tuple[str, ...] = ()
    """The reports in the state that it found."""
    after: int = 0
    """The poll of that state."""
    gone: frozenset[str] = frozenset()
    rounds: set[int] = field(default_factory=set)
    """The polls of those that were decided in it."""
    memories: dict[int, str] = field(default_factory=dict)

    def folded(self, reports: Iterable[str]) -> list[str]:
        """The reports that its states have, in order; of all that were ever there."""
        new = {n for n in reports if _poll(n) > self.after} - self.gone
        return sorted({*self.included, *new}, key=_poll)


@dataclass
class Story:
    """All that was ever seen of a history."""

    reports: dict[str, Any] = field(default_factory=dict)
    decisions: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    outcomes: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    rounds: dict[int, Round] = field(default_factory=dict)
    spoiled: set[str] = field(default_factory=set)
    """The names of files that somebody laid hands on."""
    epochs: list[Epoch] = field(default_factory=lambda: [Epoch()])

    def look(self, store: Store) -> None:
        """Take in what is there now; nothing that was said once may say anything else."""
        for name in files(store, "reports"):
            if name not in self.reports:
                self.reports[name] = read_landed(store, name)
        for table, known in (("decisions", self.decisions), ("outcomes", self.outcomes)):
            for row in read_table(store, table):
                before = known.setdefault(row["id"], row)
                if before != row:
                    assert self.is_spoiled(int(row["poll_id"])), f"{before} became {row}"
                    known[row["id"]] = row
        now, history = self.epochs[-1], HistoryTables(store)
        for row in read_table(store, "memory"):
            now.memories[int(row["poll_id"])] = row["memory"]
        for name in files(store, "rounds"):
            poll_id = _poll(name)
            made = history.round(poll_id)
            if made is None or self.rounds.get(poll_id) == made:
                continue
            assert poll_id not in self.rounds or self.is_spoiled(poll_id), (
                f"{poll_id} became {made}"
            )
            for epoch in self.epochs:
                epoch.rounds.discard(poll_id)
            now.rounds.add(poll_id)
            self.rounds[poll_id] = made

    def changed(self, store: Store, spoiled: Collection[str] = ()) -> None:
        """Somebody has laid hands on it: the balancer goes on from what is there now."""
        self.spoiled.update(spoiled)
        after = complete(store)[-1][0] if complete(store) else 0
        folded = self.epochs[-1].folded(self.reports)
        included = tuple(name for name in folded if _poll(name) <= after)
        there = {*files(store, "reports")}
        memories = {_poll(name) for name in files(store, "memory")}
        known = {p: m for p, m in self.epochs[-1].memories.items() if p in memories}
        gone = frozenset(self.reports.keys() - there)
        self.epochs.append(Epoch(included, after, gone, memories=known))

    def judge_decisions(self, store: Store, by: Strategy) -> int:
        """Each round is what this process decides on the same; gives how many there are."""
        checked = 0
        for epoch in self.epochs:
            state, last = FoldState.empty(), max(epoch.rounds, default=0)
            newest = epoch is self.epochs[-1]
            kept = {poll_id for poll_id, _ in complete(store)} if newest else set()
            for name in epoch.folded(self.reports):
                poll_id = _poll(name)
                if poll_id > max(last, *kept, 0):
                    break
                state = fold(state, Batch.of(self.reports[name]))
                if poll_id in epoch.rounds:
                    self._judge(poll_id, decide(merged([state]), _before(epoch, poll_id), by))
                    checked += 1
                if poll_id in kept:
                    shards = [read_state(store, state_name(poll_id, s, 2)) for s in range(2)]
                    assert_same(merged(shards), merged([state]))
        assert checked == len(self.rounds), "each round is of a poll that was landed"
        return checked

    def _judge(self, poll_id: int, again: Round) -> None:
        made = self.rounds[poll_id]
        told = f"{poll_id} is not what it says:\n{made}\n, but\n{again}"
        assert made.moves == again.moves, told
        if file_of("rejections", poll_id) not in self.spoiled:
            assert made == again, told

    def is_spoiled(self, of: int | str) -> bool:
        """Whether anything of a round was, by its poll or the id of a decision."""
        poll_id = int(str(of).partition("-")[0])
        return any(f"{poll_id:015d}" in name or f"/{poll_id}-" in name for name in self.spoiled)


def _before(epoch: Epoch, poll_id: int) -> RoundMemory:
    earlier = [poll for poll in epoch.memories if poll < poll_id]
    if not earlier:
        return RoundMemory()
    return RoundMemory.from_json(json.loads(epoch.memories[max(earlier)]))


def _poll(name: str) -> int:
    return extent(name)[0]
