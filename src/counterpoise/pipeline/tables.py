"""The history as Parquet tables: rounds, decisions, rejections, outcomes, memory.

Each is a directory of small files under `HISTORY`, readable by anything that reads Parquet
(`pyarrow.dataset`, Spark, DuckDB, pandas). A file appears whole or not at all; the file of a round
is written after the decisions and rejections it counts, and so says that they are complete.

| table        | a row for each        | file                      |
|--------------|-----------------------|---------------------------|
| `reports`    | row of `rows.COLUMNS` | `<poll id>.parquet`       |
| `rounds`     | round of decisions    | `<poll id>.parquet`       |
| `decisions`  | move                  | `<poll id>.parquet`       |
| `rejections` | thing not done        | `<poll id>.parquet`       |
| `outcomes`   | move that was tried   | `<decision id>.parquet`   |
| `memory`     | round that ended      | `<poll id>.parquet`       |
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.decide.balancing.moves import Move, Outcome, Round, RoundMemory, Status
from counterpoise.decide.plan import Decision, Kind, Rejection
from counterpoise.pipeline.compaction import read_history
from counterpoise.pipeline.files import write_whole

_TEXT, _INT, _FLOAT, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()

SCHEMAS: Mapping[str, pa.Schema] = {
    "rounds": pa.schema(
        {
            "poll_id": _INT,
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
            "bundle": _TEXT,
            "source": _TEXT,
            "destination": _TEXT,
            "status": _TEXT,
            "carried_out": _FLAG,
            "owner": _TEXT,
            "started_at_ms": _INT,
            "ended_at_ms": _INT,
            "error": _TEXT,
        }
    ),
    "memory": pa.schema({"poll_id": _INT, "memory": _TEXT}),
}


class HistoryTables:
    """A history that survives the process and the leader; the `History` of the Spark balancer."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def memory_before(self, poll_id: int) -> RoundMemory:
        """The memory after the latest round that came before this poll."""
        files = (self.directory / "memory").glob("[0-9]*.parquet")
        earlier = [file for file in files if int(file.stem) < poll_id]
        if not earlier:
            return RoundMemory()
        [row] = pq.read_table(max(earlier, key=lambda file: int(file.stem))).to_pylist()
        return RoundMemory.from_json(json.loads(row["memory"]))

    def is_complete(self, poll_id: int) -> bool:
        """Whether the round of this poll was recorded to its end."""
        return self._file("memory", poll_id).exists()

    def round(self, poll_id: int) -> Round | None:
        """The round of this poll, when it was decided already."""
        if not self._file("rounds", poll_id).exists():
            return None
        [row] = self._rows("rounds", poll_id)
        return Round(
            poll_id=poll_id,
            strategy=row["strategy"],
            imbalance=row["imbalance"],
            brokers=row["brokers"],
            bundles=row["bundles"],
            moves=tuple(_move(each) for each in self._rows("decisions", poll_id)),
            rejections=tuple(_rejection(each) for each in self._rows("rejections", poll_id)),
            memory=RoundMemory.from_json(json.loads(row["memory"])),
        )

    def outcome(self, move_id: str) -> Outcome | None:
        """What became of a move, when that is known already."""
        if not self._file("outcomes", move_id).exists():
            return None
        [row] = self._rows("outcomes", move_id)
        del row["carried_out"]
        return Outcome(**{**row, "status": Status(row["status"])})

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

    def record_outcome(self, outcome: Outcome) -> None:
        """Keep an outcome as soon as it is known."""
        row = {name: getattr(outcome, name) for name in SCHEMAS["outcomes"].names}
        self._write("outcomes", outcome.id, [{**row, "status": outcome.status.value}])

    def record_memory(self, poll_id: int, memory: RoundMemory) -> None:
        """Keep the memory that ends a round."""
        row = {"poll_id": poll_id, "memory": json.dumps(memory.to_json())}
        self._write("memory", poll_id, [row])

    def _file(self, table: str, key: int | str) -> Path:
        name = f"{key:015d}" if isinstance(key, int) else key
        return self.directory / table / f"{name}.parquet"

    def _rows(self, table: str, key: int | str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(self._file(table, key)).to_pylist()
        return rows

    def _write(self, table: str, key: int | str, rows: Sequence[Mapping[str, Any]]) -> None:
        write_whole(self._file(table, key), pa.Table.from_pylist(list(rows), SCHEMAS[table]))


def read_table(history: Path, table: str) -> list[dict[str, Any]]:
    """All rows of one table of a history, archived or not, oldest first."""
    return [row for part in read_history(history, table) for row in part.to_pylist()]


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
        "figures": json.dumps(dict(decision.figures)),
        "placement": move.placement,
    }


def _move(row: Mapping[str, Any]) -> Move:
    decision = Decision(
        kind=Kind(row["kind"]),
        bundle=row["bundle"],
        source=row["source"],
        destination=row["destination"] or None,
        reason=row["reason"],
        template=row["template"],
        figures=json.loads(row["figures"]),
    )
    return Move(row["id"], row["poll_id"], decision, row["placement"])


def _rejection_row(made: Round, rejection: Rejection) -> dict[str, Any]:
    names: Iterable[str] = ("subject", "rule", "value", "limit", "setting", "sentence", "template")
    row = {name: getattr(rejection, name) for name in names}
    return {"poll_id": made.poll_id, **row, "figures": json.dumps(dict(rejection.figures))}


def _rejection(row: Mapping[str, Any]) -> Rejection:
    names = ("subject", "rule", "value", "limit", "setting", "template")
    return Rejection(**{name: row[name] for name in names}, figures=json.loads(row["figures"]))
