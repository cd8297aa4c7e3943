"""The history's tables of rounds: rounds, decisions, rejections, outcomes, memory.

Each is a directory of Parquet files under `HISTORY` (`layout.py`), readable by anything that reads
Parquet. A file appears whole or not at all; the file of a round is written after the decisions and
rejections it counts, and so says that they are complete.

| table        | a row for each        | key of a file      |
|--------------|-----------------------|--------------------|
| `reports`    | row of `rows.COLUMNS` | the poll           |
| `ownership`  | bundle that moved     | the poll           |
| `rounds`     | round of decisions    | the poll           |
| `decisions`  | move                  | the poll           |
| `rejections` | thing not done        | the poll           |
| `outcomes`   | move that was tried   | the decision's id  |
| `memory`     | round that ended      | the poll           |

`at` is the poll's time in all of them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import pyarrow as pa

from counterpoise.decide.balancing.basis import MoveBasis
from counterpoise.decide.balancing.moves import Move, MoveOutcome, MoveStatus, Round, RoundMemory
from counterpoise.decide.plan import Decision, DecisionKind, Rejection
from counterpoise.pipeline.history.compaction import read_table_parts
from counterpoise.pipeline.history.layout import latest_before, newest_poll
from counterpoise.pipeline.history.names import file_of
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.tables.parquet import read_rows, write_rows
from counterpoise.pipeline.tables.rows_codec import MOMENT

PART = "partOfLoad"
"""Among a decision's figures: how much of the cluster's bytes/s its bundle carried."""
BASIS = "basis"
"""Among them: what the move rests on (`MoveBasis`)."""

_TEXT, _INT, _FLOAT, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()

SCHEMAS: Mapping[str, pa.Schema] = {
    "rounds": pa.schema(
        {
            "poll_id": _INT,
            "at": MOMENT,
            "strategy": _TEXT,
            "imbalance": _FLOAT,
            "brokers": _INT,
            "bundles": _INT,
            "decisions": _INT,
            "rejections": _INT,
            "memory": _TEXT,
        }
    ),
    "decisions": pa.schema(
        {
            "id": _TEXT,
            "poll_id": _INT,
            "at": MOMENT,
            "kind": _TEXT,
            "bundle": _TEXT,
            "source": _TEXT,
            "destination": _TEXT,
            "reason": _TEXT,
            "sentence": _TEXT,
            "template": _TEXT,
            "figures": _TEXT,
            "placement": _TEXT,
        }
    ),
    "rejections": pa.schema(
        {
            "poll_id": _INT,
            "at": MOMENT,
            "subject": _TEXT,
            "rule": _TEXT,
            "value": _FLOAT,
            "limit": _FLOAT,
            "setting": _TEXT,
            "sentence": _TEXT,
            "template": _TEXT,
            "figures": _TEXT,
        }
    ),
    "outcomes": pa.schema(
        {
            "id": _TEXT,
            "poll_id": _INT,
            "at": MOMENT,
            "bundle": _TEXT,
            "source": _TEXT,
            "destination": _TEXT,
            "status": _TEXT,
            "carried_out": _FLAG,
            "owner": _TEXT,
            "started_at_ms": _INT,
            "ended_at_ms": _INT,
            "started_at": MOMENT,
            "ended_at": MOMENT,
            "error": _TEXT,
        }
    ),
    "memory": pa.schema({"poll_id": _INT, "at": MOMENT, "memory": _TEXT}),
}


class HistoryTables:
    """A history that survives the process and the leader; the `History` of the Spark balancer."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def memory_before(self, poll_id: int) -> RoundMemory:
        """The memory after the latest round that came before this poll."""
        name = latest_before(self.store, "memory", poll_id)
        if name is None:
            return RoundMemory()
        rows = [row for row in self._read(name) if row["poll_id"] < poll_id]
        latest = max(rows, key=lambda row: int(row["poll_id"]))
        return RoundMemory.from_json(json.loads(latest["memory"]))

    def is_complete(self, poll_id: int) -> bool:
        """Whether the round of this poll, or a later one, was recorded to its end."""
        return newest_poll(self.store, "memory") >= poll_id

    def round(self, poll_id: int) -> Round | None:
        """The round of this poll, when it was decided already.

        One whose decisions are not all there any more is decided anew; reasons why others stayed
        are for people, and may be missing.
        """
        if not self.store.exists(file_of("rounds", poll_id)):
            return None
        [row] = self._rows("rounds", poll_id)
        moves = self._rows_if_there("decisions", poll_id)
        if len(moves) != row["decisions"]:
            return None
        return Round(
            poll_id=poll_id,
            strategy=row["strategy"],
            imbalance=row["imbalance"],
            brokers=row["brokers"],
            bundles=row["bundles"],
            moves=tuple(map(_move, moves)),
            rejections=tuple(map(_rejection, self._rows_if_there("rejections", poll_id))),
            memory=RoundMemory.from_json(json.loads(row["memory"])),
        )

    def cut_off(self) -> Round | None:
        """The latest round, when it was not recorded to its end."""
        newest = newest_poll(self.store, "rounds")
        return None if self.is_complete(newest) else self.round(newest)

    def outcome(self, move_id: str) -> MoveOutcome | None:
        """What became of a move, when that is known already."""
        name = file_of("outcomes", int(move_id.partition("-")[0]), move_id)
        if not self.store.exists(name):
            return None
        [row] = self._read(name)
        known = {each.name: row[each.name] for each in fields(MoveOutcome)}
        return MoveOutcome(**{**known, "status": MoveStatus(row["status"])})

    def record_round(self, made: Round) -> None:
        """Keep a round before any of its moves is carried out."""
        self._write("decisions", made.poll_id, [_move_row(move) for move in made.moves])
        self._write("rejections", made.poll_id, [_rejection_row(made, r) for r in made.rejections])
        row = {
            "poll_id": made.poll_id,
            "strategy": made.strategy,
            "imbalance": made.imbalance,
            "brokers": made.brokers,
            "bundles": made.bundles,
            "decisions": len(made.moves),
            "rejections": len(made.rejections),
            "memory": json.dumps(made.memory.to_json()),
        }
        self._write("rounds", made.poll_id, [row])

    def record_outcome(self, outcome: MoveOutcome) -> None:
        """Keep an outcome as soon as it is known."""
        row = {name: getattr(outcome, name, None) for name in SCHEMAS["outcomes"].names}
        row |= {
            "status": outcome.status.value,
            "started_at": outcome.started_at_ms,
            "ended_at": outcome.ended_at_ms,
        }
        self._write("outcomes", outcome.poll_id, [row], outcome.id)

    def record_memory(self, poll_id: int, memory: RoundMemory) -> None:
        """Keep the memory that ends a round."""
        row = {"poll_id": poll_id, "memory": json.dumps(memory.to_json())}
        self._write("memory", poll_id, [row])

    def _rows(self, table: str, poll_id: int) -> list[dict[str, Any]]:
        return self._read(file_of(table, poll_id))

    def _rows_if_there(self, table: str, poll_id: int) -> list[dict[str, Any]]:
        try:
            return self._rows(table, poll_id)
        except FileNotFoundError:
            return []

    def _read(self, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.store.read(name, read_rows).to_pylist()
        return rows

    def _write(
        self, table: str, poll_id: int, rows: Sequence[Mapping[str, Any]], key: str = ""
    ) -> None:
        complete = [{**row, "at": poll_id} for row in rows]
        with self.store.writing(file_of(table, poll_id, key)) as file:
            write_rows(file, pa.Table.from_pylist(complete, SCHEMAS[table]))


def read_table(store: Store, table: str) -> list[dict[str, Any]]:
    """All rows of one table of a history, compacted or not, oldest first."""
    return [row for part in read_table_parts(store, table) for row in part.to_pylist()]


def _move_row(move: Move) -> dict[str, Any]:
    decision = move.decision
    return {
        "id": move.id,
        "poll_id": move.poll_id,
        "kind": decision.kind.value,
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


def _move(row: Mapping[str, Any]) -> Move:
    figures = json.loads(row["figures"])
    part, written = figures.pop(PART, 0.0), figures.pop(BASIS, None)
    basis = MoveBasis.from_json(written) if written else None
    decision = Decision(
        kind=DecisionKind(row["kind"]),
        bundle=row["bundle"],
        source=row["source"],
        destination=row["destination"] or None,
        reason=row["reason"],
        template=row["template"],
        figures=figures,
    )
    return Move(
        row["id"],
        row["poll_id"],
        decision,
        row["placement"],
        part,
        basis,
    )


def _rejection_row(made: Round, rejection: Rejection) -> dict[str, Any]:
    names: Iterable[str] = ("subject", "rule", "value", "limit", "setting", "sentence", "template")
    row = {name: getattr(rejection, name) for name in names}
    return {"poll_id": made.poll_id, **row, "figures": json.dumps(dict(rejection.figures))}


def _rejection(row: Mapping[str, Any]) -> Rejection:
    names = ("subject", "rule", "value", "limit", "setting", "template")
    return Rejection(**{name: row[name] for name in names}, figures=json.loads(row["figures"]))
