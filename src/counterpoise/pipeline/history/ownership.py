"""The table `ownership`: which broker reports a bundle from which poll on.

A row says that a bundle is reported by another broker than before; its first has no `source`. So
the last row of each bundle says who has it, and a change of hands is looked up in a table of
changes, and not for in a month of reports.

Rows are written before the poll they come from. What a crash left of a poll that never landed goes
when the next writer begins, which finds those changes anew.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from counterpoise.load.rows import BUNDLE, ReportRows, Table
from counterpoise.pipeline.history.compaction import read_table_parts
from counterpoise.pipeline.history.layout import files, newest_poll
from counterpoise.pipeline.history.names import archive_of, file_of, is_archive, span
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.tables.parquet import read_rows, write_rows
from counterpoise.pipeline.tables.rows_codec import MOMENT, columns_of

TABLE = "ownership"
SCHEMA = pa.schema(
    {
        "poll_id": pa.int64(),
        "at": MOMENT,
        "bundle": pa.string(),
        "source": pa.string(),
        "destination": pa.string(),
    }
)
_TOLD = ("bundle", "broker", "report_at_ms")
_READ = ("poll_id", "kind", *_TOLD)


class Owners:
    """Who reported each bundle last."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    @classmethod
    def of(cls, store: Store) -> "Owners":
        """Those at the newest poll of a history, whose only writer we are."""
        for name in files(store, TABLE, after=newest_poll(store)):
            if not is_archive(name):
                store.delete(name)
        made = cls()
        for part in read_table_parts(store, TABLE):
            bundles, brokers = part.column("bundle"), part.column("destination")
            made._owners.update(zip(bundles.to_pylist(), brokers.to_pylist(), strict=True))
        return made

    def land(self, store: Store, rows: ReportRows) -> None:
        """Write what changed with a poll that is about to be landed."""
        changed = self.changes(rows.columns)
        if len(changed):
            _write(store, file_of(TABLE, int(rows["poll_id"][0])), changed)

    def changes(self, poll: Table) -> pa.Table:
        """The rows of one poll, of which `_READ` is looked at.

        Of two brokers that report a bundle the one whose report is newer has it, and of two of the
        same time the one that did not have it: the other was asked before the bundle moved.
        """
        kept = np.flatnonzero(poll["kind"] == BUNDLE)
        bundles, brokers = (poll[name][kept].tolist() for name in ("bundle", "broker"))
        had = map(self._owners.get, bundles)
        new = {
            bundle
            for bundle, broker, before in zip(bundles, brokers, had, strict=True)
            if broker != before
        }
        if not new:
            return SCHEMA.empty_table()
        # Of a million bundles few change hands: nothing is asked about the others.
        kept = kept[np.fromiter(map(new.__contains__, bundles), np.bool_, len(bundles))]
        told = self._told(*(poll[name][kept].tolist() for name in _TOLD))
        bundles, brokers = list(told), list(told.values())
        before = [self._owners.get(bundle, "") for bundle in bundles]
        moved = [n for n, broker in enumerate(brokers) if before[n] != broker]
        if not moved:
            return SCHEMA.empty_table()
        columns = [pa.array([each[n] for n in moved]) for each in (bundles, before, brokers)]
        self._owners.update(told)
        polls = pa.array([int(poll["poll_id"][0])] * len(moved))
        return pa.table([polls, polls.cast(MOMENT), *columns], schema=SCHEMA)

    def _told(self, bundles: list[str], brokers: list[str], made: list[int]) -> dict[str, str]:
        """Who has each of these bundles."""
        told = dict(zip(bundles, brokers, strict=True))
        if len(told) == len(bundles):
            return told
        several = {bundle for bundle, times in Counter(bundles).items() if times > 1}
        newest: dict[str, tuple[int, bool, str]] = {}
        for bundle, broker, at_ms in zip(bundles, brokers, made, strict=True):
            if bundle in several:
                each = (at_ms, self._owners.get(bundle) != broker, broker)
                newest[bundle] = max(each, newest.get(bundle, each))
        return told | {bundle: broker for bundle, (_, _, broker) in newest.items()}


def rebuild(store: Store, *, anew: bool = False) -> int:
    """Work the table out from the reports where it lacks the first of them, and count its rows.

    It is worked out `anew`, too, when a file of it was damaged. An older balancer wrote no such
    table. The file of the first reports is written last: where it is, the others are.
    """
    reports, there = files(store, "reports"), files(store, TABLE)
    if not reports or (not anew and there and _first(there[0]) <= _first(reports[0])):
        return 0
    store.delete_directory(TABLE)
    owners, made = Owners(), list[tuple[str, pa.Table]]()
    count = 0
    for name in reports:
        read = store.read(name, lambda file: read_rows(file, _READ))
        changed = pa.concat_tables([owners.changes(poll) for poll in _polls(read)])
        if not len(changed):
            continue
        count += len(changed)
        first, last = span(name) or (0, 0)
        made.append((archive_of(TABLE, first, last), changed))
        if len(made) > 1:
            _write(store, *made.pop())
    for each in made:
        _write(store, *each)
    return count


def _write(store: Store, name: str, rows: pa.Table) -> None:
    with store.writing(name) as file:
        write_rows(file, rows)


def _first(name: str) -> int:
    return (span(name) or (0, 0))[0]


def _polls(read: pa.Table) -> Iterator[Table]:
    """The polls of a file, in order; a file has the rows of brokers and of bundles apart."""
    columns = columns_of(read, _READ)
    order = np.argsort(columns["poll_id"], kind="stable")
    polls = columns["poll_id"][order]
    starts = np.flatnonzero(np.r_[True, polls[1:] != polls[:-1]]).tolist()
    for first, last in pairwise([*starts, len(order)]):
        rows = order[first:last]
        yield {name: column[rows] for name, column in columns.items()}
