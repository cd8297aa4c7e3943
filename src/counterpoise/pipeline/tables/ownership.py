"""The table `ownership_changes`: from which poll on a broker reports a bundle.

A row says that another broker than before reports a bundle; the first row of a bundle has no
`source`. So the last row of each bundle names its broker, and a change of owner is found in a small
table instead of a month of reports.

Rows are committed before the poll they come from. If that poll was never committed, because of a
crash, the next writer removes its rows when it starts, and finds the changes again.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from counterpoise.load.rows import BUNDLE, Table
from counterpoise.pipeline.tables.data_files import read_file, write_file
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.reports import newest_poll
from counterpoise.pipeline.tables.schema import MOMENT, OWNERSHIP_CHANGES, SCHEMAS

_REPORTED = ("bundle", "broker", "report_at_ms")


class BundleOwners:
    """The broker that reported each bundle last; writes the table of ownership changes."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    @classmethod
    def of(cls, writer: TablesWriter) -> "BundleOwners":
        """The owner of each bundle as of the last poll of the cluster that the history recorded."""
        newest = newest_poll(writer)
        unlanded = [f for f in writer.files(OWNERSHIP_CHANGES, newest) if f.first_poll > newest]
        if unlanded:
            writer.commit(OWNERSHIP_CHANGES, [], removed=unlanded)
        made = cls()
        for file in writer.files(OWNERSHIP_CHANGES):
            part = read_file(writer.location, file, ["bundle", "destination"])
            bundles, brokers = part.column("bundle"), part.column("destination")
            made._owners.update(zip(bundles.to_pylist(), brokers.to_pylist(), strict=True))
        return made

    def land(self, writer: TablesWriter, polls: Iterable[Table]) -> None:
        """Commit the ownership changes of polls of one day, oldest first, before the polls."""
        found = [self.changes(poll) for poll in polls]
        changed = pa.concat_tables(found) if found else ()
        if len(changed):
            file = write_file(writer.location, OWNERSHIP_CHANGES, changed)
            writer.commit(OWNERSHIP_CHANGES, [file])

    def changes(self, poll: Table) -> pa.Table:
        """The rows of ownership changes that one poll shows.

        If two brokers report a bundle, the newer report wins. Of reports of the same time, that of
        the broker that did not own the bundle wins, since the other was asked before the move.
        `poll` has the columns `poll_id`, `kind`, `bundle`, `broker` and `report_at_ms`.
        """
        schema = SCHEMAS[OWNERSHIP_CHANGES]
        kept = np.flatnonzero(poll["kind"] == BUNDLE)
        bundles, brokers = (poll[name][kept].tolist() for name in ("bundle", "broker"))
        had = map(self._owners.get, bundles)
        new = {
            bundle
            for bundle, broker, before in zip(bundles, brokers, had, strict=True)
            if broker != before
        }
        if not new:
            return schema.empty_table()
        # Few bundles of up to a million change owners: the slower code below handles only those.
        kept = kept[np.fromiter(map(new.__contains__, bundles), np.bool_, len(bundles))]
        reported = self._reported(*(poll[name][kept].tolist() for name in _REPORTED))
        bundles, brokers = list(reported), list(reported.values())
        before = [self._owners.get(bundle, "") for bundle in bundles]
        moved = [n for n, broker in enumerate(brokers) if before[n] != broker]
        if not moved:
            return schema.empty_table()
        columns = [pa.array([each[n] for n in moved]) for each in (bundles, before, brokers)]
        self._owners.update(reported)
        polls = pa.array([int(poll["poll_id"][0])] * len(moved))
        return pa.table([polls, polls.cast(MOMENT), *columns], schema=schema)

    def _reported(self, bundles: list[str], brokers: list[str], made: list[int]) -> dict[str, str]:
        """The broker of each reported bundle; the arguments have one entry for each report."""
        reported = dict(zip(bundles, brokers, strict=True))
        if len(reported) == len(bundles):
            return reported
        several = {bundle for bundle, times in Counter(bundles).items() if times > 1}
        newest: dict[str, tuple[int, bool, str]] = {}
        for bundle, broker, at_ms in zip(bundles, brokers, made, strict=True):
            if bundle in several:
                each = (at_ms, self._owners.get(bundle) != broker, broker)
                newest[bundle] = max(each, newest.get(bundle, each))
        return reported | {bundle: broker for bundle, (_, _, broker) in newest.items()}
