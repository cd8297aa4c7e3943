"""The table `journal`: rounds, decisions, rejections, outcomes and memory.

It is one table, since Delta has no transaction over several: one commit has a round with its
decisions and rejections.
"""

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from counterpoise.decide.balancing.approval import PastMove
from counterpoise.decide.balancing.basis import MoveBasis
from counterpoise.decide.balancing.moves import Move, MoveOutcome, MoveStatus, Round, RoundMemory
from counterpoise.decide.plan import Decision, DecisionKind, Rejection
from counterpoise.names.bundle import namespace_of
from counterpoise.pipeline.clock import EVER
from counterpoise.pipeline.tables.data_files import DataFile, read_file, write_file
from counterpoise.pipeline.tables.history import TablesReader, TablesWriter
from counterpoise.pipeline.tables.row_groups import of_polls
from counterpoise.pipeline.tables.schema import JOURNAL, OUTCOME, SCHEMAS, JournalKind

PART = "partOfLoad"
"""The key, in a decision's `figures`, of the bundle's bytes/s as a part of the cluster's."""
BASIS = "basis"
"""The key, in a decision's `figures`, of what the move is based on (`MoveBasis`)."""

UNACKNOWLEDGED = "unacknowledgedSeconds"
"""The key, in an outcome's `figures`, of `MoveOutcome.unacknowledged_s`."""

_OF_REJECTION = ("subject", "rule", "value", "limit", "setting", "template")
DECIDED = "counterpoise-round"
"""The name of a Delta application transaction: its version is the poll of the newest round."""
ENDED = "counterpoise-round-ended"
"""The name of a Delta application transaction: its version is the last completed round's poll."""
_DECIDED_BEFORE_MS = 600_000
"""The longest time from a move's decision to its end, in ms: decisions of so long ago are read."""
_FILES_AT_HAND = 64
_ROWS_AT_HAND = 5_000

JournalRow = Mapping[str, Any]


class Journal:
    """Reads a history's table `journal`: rounds, moves, outcomes. Raises `HistoryFaultError`."""

    def __init__(self, reader: TablesReader) -> None:
        self._reader = reader
        self._at_hand: OrderedDict[str, pa.Table] = OrderedDict()
        """A cache of the rows of small files that were read recently: a data file never changes."""

    def memory_before(self, poll_id: int) -> RoundMemory:
        """The balancer's memory after the latest round before this poll."""
        best: JournalRow | None = None
        files = self._reader.files(JOURNAL)
        for file in sorted(files, key=lambda file: -file.last_poll):
            if best is not None and file.last_poll <= best["poll_id"]:
                break
            if file.first_poll >= poll_id or not _may_have(file, (JournalKind.MEMORY,)):
                continue
            kept = of_polls(self._read(file), -1, poll_id - 1, [JournalKind.MEMORY])
            for row in kept.to_pylist():
                if best is None or row["poll_id"] >= best["poll_id"]:
                    best = row
        return RoundMemory.from_json(json.loads(best["memory"])) if best else RoundMemory()

    def is_decided(self, poll_id: int) -> bool:
        """Whether a round was decided at this poll or a later one."""
        return self.newest_round() >= poll_id

    def is_complete(self, poll_id: int) -> bool:
        """Whether the round of this poll, or a later one, has ended with all outcomes recorded."""
        return (self._reader.transaction(JOURNAL, ENDED) or 0) >= poll_id

    def round(self, poll_id: int) -> Round | None:
        """The round decided at this poll; None if there is none."""
        rows = list(self.rows(*_OF_A_ROUND, after=poll_id - 1, up_to=poll_id))
        made = [row for row in rows if row["kind"] == JournalKind.ROUND]
        if not made:
            return None
        row = made[-1]
        return Round(
            poll_id=poll_id,
            strategy=row["strategy"],
            imbalance=row["imbalance"],
            brokers=row["brokers"],
            bundles=row["bundles"],
            moves=tuple(move_of(row) for row in rows if row["kind"] == JournalKind.DECISION),
            rejections=tuple(
                rejection_of(row) for row in rows if row["kind"] == JournalKind.REJECTION
            ),
            memory=RoundMemory.from_json(json.loads(row["memory"])),
        )

    def newest_round(self) -> int:
        """The poll at which the latest round was decided; 0 when there is none."""
        return self._reader.transaction(JOURNAL, DECIDED) or 0

    def interrupted(self) -> Round | None:
        """The latest round if it was interrupted before its end; otherwise None."""
        newest = self.newest_round()
        return None if not newest or self.is_complete(newest) else self.round(newest)

    def outcome(self, move_id: str) -> MoveOutcome | None:
        """The recorded outcome of a move; None if there is none."""
        poll_id = int(move_id.partition("-")[0])
        outcomes = self.rows(JournalKind.OUTCOME, after=poll_id - 1, up_to=poll_id)
        found = [row for row in outcomes if row["id"] == move_id]
        return outcome_of(found[-1]) if found else None

    def moved_since(self, since_ms: int) -> list[PastMove]:
        """Each successful move that ended at or after `since_ms` (milliseconds since 1970)."""
        after = since_ms - _DECIDED_BEFORE_MS
        parts = {
            row["id"]: json.loads(row["figures"]).get(PART, 0.0)
            for row in self.rows(JournalKind.DECISION, after=after)
        }
        return [
            PastMove(
                int(row["ended_at_ms"]),
                parts.get(row["id"], 0.0),
                namespace_of(row["bundle"]),
                (row["ended_at_ms"] - row["started_at_ms"]) / 1000,
            )
            for row in self.ended_since(since_ms)
            if row["carried_out"]
        ]

    def ended_since(self, since_ms: int) -> list[JournalRow]:
        """The outcome row of each move that ended at or after `since_ms` (ms since 1970)."""
        outcomes = self.rows(JournalKind.OUTCOME, after=since_ms - _DECIDED_BEFORE_MS)
        return [row for row in outcomes if row["ended_at_ms"] >= since_ms]

    def rows(self, *kinds: JournalKind, after: int = -1, up_to: int = EVER) -> Iterator[JournalRow]:
        """The journal's rows of these kinds, of polls after `after` up to `up_to`, oldest first."""
        for part in self.parts(*kinds, after=after, up_to=up_to):
            yield from part.to_pylist()

    def parts(self, *kinds: JournalKind, after: int = -1, up_to: int = EVER) -> Iterator[pa.Table]:
        """The rows that `rows` yields, as one Arrow table for each data file."""
        for file in self._reader.files(JOURNAL, after):
            if file.first_poll > up_to or not _may_have(file, kinds):
                continue
            if len(found := of_polls(self._read(file), after, up_to, kinds)):
                yield found

    def _read(self, file: DataFile) -> pa.Table:
        if file.name in self._at_hand:
            self._at_hand.move_to_end(file.name)
            return self._at_hand[file.name]
        table = read_file(self._reader.location, file)
        if file.rows <= _ROWS_AT_HAND:
            self._at_hand[file.name] = table
            if len(self._at_hand) > _FILES_AT_HAND:
                self._at_hand.popitem(last=False)
        return table


_OF_A_ROUND = (JournalKind.ROUND, JournalKind.DECISION, JournalKind.REJECTION)


class JournalWriter(Journal):
    """Writes a history's table `journal`; raises `SupersededError` and `HistoryFaultError`."""

    def __init__(self, writer: TablesWriter) -> None:
        super().__init__(writer)
        self._writer = writer

    def record_round(self, made: Round) -> None:
        """Commit a round before any of its moves is carried out.

        Raises `ValueError` if a round of its poll, or of a later one, is recorded already.
        """
        if self.is_decided(made.poll_id):
            raise ValueError(f"a round of poll {made.poll_id}, or of a later one, was decided")
        round_row = {
            "kind": JournalKind.ROUND,
            "strategy": made.strategy,
            "imbalance": made.imbalance,
            "brokers": made.brokers,
            "bundles": made.bundles,
            "decisions": len(made.moves),
            "rejections": len(made.rejections),
            "memory": json.dumps(made.memory.to_json()),
        }
        rows = [round_row, *map(decision_row, made.moves), *map(rejection_row, made.rejections)]
        self._record(made.poll_id, rows, {DECIDED: made.poll_id})

    def record_outcome(self, outcome: MoveOutcome) -> None:
        """Commit an outcome as soon as it is known."""
        self._record(outcome.poll_id, [outcome_row(outcome)])

    def record_memory(self, poll_id: int, memory: RoundMemory) -> None:
        """Commit the memory that ends a round."""
        row = {"kind": JournalKind.MEMORY, "memory": json.dumps(memory.to_json())}
        self._record(poll_id, [row], {ENDED: poll_id})

    def _record(
        self,
        poll_id: int,
        rows: Sequence[Mapping[str, Any]],
        transactions: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        complete = [{**row, "poll_id": poll_id, "at": poll_id} for row in rows]
        table = pa.Table.from_pylist(complete, SCHEMAS[JOURNAL])
        file = write_file(self._writer.location, JOURNAL, table)
        self._writer.commit(JOURNAL, [file], transactions=transactions)


def _may_have(file: DataFile, kinds: Sequence[JournalKind]) -> bool:
    """Whether a file may have rows of these kinds, by its statistics."""
    if file.kinds is None:
        return True
    first, last = file.kinds
    return any(first <= kind <= last for kind in kinds)


def decision_row(move: Move) -> dict[str, Any]:
    """The journal's row for a move that was decided."""
    decision = move.decision
    return {
        "kind": JournalKind.DECISION,
        "id": move.id,
        "action": decision.kind.value,
        "bundle": decision.bundle,
        "source": decision.source,
        "destination": move.destination,
        "reason": decision.reason,
        "sentence": decision.sentence,
        "template": decision.template,
        "figures": json.dumps(
            {**decision.figures, PART: move.part, BASIS: move.basis and move.basis.to_json()}
        ),
        "placement": move.placement,
    }


def move_of(row: Mapping[str, Any]) -> Move:
    """Read a move back from its row in the journal."""
    figures = json.loads(row["figures"])
    part, written = figures.pop(PART, 0.0), figures.pop(BASIS, None)
    basis = MoveBasis.from_json(written) if written else None
    decision = Decision(
        kind=DecisionKind(row["action"]),
        bundle=row["bundle"],
        source=row["source"],
        destination=row["destination"] or None,
        reason=row["reason"],
        template=row["template"],
        figures=figures,
    )
    return Move(row["id"], row["poll_id"], decision, row["placement"], part, basis)


def rejection_row(rejection: Rejection) -> dict[str, Any]:
    """The journal's row for a rejection: a broker, bundle or cluster that a round left as it is."""
    row = {name: getattr(rejection, name) for name in (*_OF_REJECTION, "sentence")}
    figures = json.dumps(dict(rejection.figures))
    return {"kind": JournalKind.REJECTION, **row, "figures": figures}


def rejection_of(row: Mapping[str, Any]) -> Rejection:
    """Read a rejection back from its row in the journal."""
    figures = json.loads(row["figures"])
    return Rejection(**{name: row[name] for name in _OF_REJECTION}, figures=figures)


def outcome_row(outcome: MoveOutcome) -> dict[str, Any]:
    """The journal's row for a move's outcome."""
    return {
        "kind": JournalKind.OUTCOME,
        **{name: getattr(outcome, name, None) for name in OUTCOME},
        "status": outcome.status.value,
        "started_at": outcome.started_at_ms,
        "ended_at": outcome.ended_at_ms,
        "figures": json.dumps({UNACKNOWLEDGED: outcome.unacknowledged_s}),
    }


def outcome_of(row: Mapping[str, Any]) -> MoveOutcome:
    """Read a move's outcome back from its row in the journal."""
    known = {each.name: row[each.name] for each in fields(MoveOutcome) if each.name in row}
    known |= {"status": MoveStatus(row["status"]), "unacknowledged_s": unacknowledged_of(row)}
    return MoveOutcome(**known)


def unacknowledged_of(row: Mapping[str, Any]) -> float | None:
    """The column `unacknowledged_s` of an outcome's row; None in old rows, which lack it."""
    waiting = json.loads(row.get("figures") or "{}").get(UNACKNOWLEDGED)
    return None if waiting is None else float(waiting)
