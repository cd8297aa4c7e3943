"""What polls of a cluster saw, as columns: the type that is landed, streamed and folded.

The landing table is the history, so its rows keep what was seen and how old it was, and nothing
derived. Four kinds of rows, in the order of `(poll_id, seq)`:

* `poll`: one for each poll; `note` is empty, or says why nothing could be read at all;
* `broker`: a broker's load report without its bundles (`LocalBrokerData`);
* `bundle`: one bundle of that report (`NamespaceBundleStats`), following its broker's row;
* `gap`: a broker of the cluster that could not be read; `note` says why.

A report that was read twice unchanged is landed once: its second `broker` row has `fresh` false and
no bundles follow, so a report is never more than one sample.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]

POLL: Final = "poll"
BROKER: Final = "broker"
BUNDLE: Final = "bundle"
GAP: Final = "gap"

RATES: Final = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
RESOURCES: Final = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")

TEXT: Final = np.dtype(object)
_INT: Final = np.dtype(np.int64)
_FLOAT: Final = np.dtype(np.float64)
_FLAG: Final = np.dtype(np.bool_)

COLUMNS: Final[Mapping[str, np.dtype[Any]]] = {
    "poll_id": _INT,  # milliseconds since 1970 at the start of the poll; strictly increasing
    "seq": _INT,  # place of the row in its poll
    "kind": TEXT,  # poll, broker, bundle or gap
    "broker": TEXT,  # host:webPort
    "bundle": TEXT,  # tenant/namespace/0x…_0x…
    "fetched_at_ms": _INT,  # when the report was read
    "report_at_ms": _INT,  # the report's own lastUpdate
    "age_ms": _INT,  # fetched_at_ms - report_at_ms: how old the report was when it was read
    "fresh": _FLAG,  # false: the same report as at the poll before
    "digest": _INT,  # CRC-32: of a report's content, to recognise it; of a bundle's name
    "note": TEXT,  # why there is a gap
    **dict.fromkeys(RATES, _FLOAT),  # messages per second, bytes per second
    "topics": _INT,
    "bundles": _INT,
    "producers": _INT,
    "consumers": _INT,
    "cache_size": _INT,  # bytes
    **{f"{name}_{part}": _FLOAT for name in RESOURCES for part in ("usage", "limit")},
    "web_service_url": TEXT,
    "pulsar_service_url": TEXT,
    "broker_version": TEXT,
    "load_manager": TEXT,  # loadManagerClassName
    "persistent_topics": _FLAG,
    "non_persistent_topics": _FLAG,
    "started_at_ms": _INT,
    "load_average": _FLOAT,  # of usage, as the broker makes it (PIP-192); 0 where it makes none
    "topic_loads": TEXT,  # of a bundle's topics, JSON (`load/topic_loads.py`); mostly empty
}

# The columns of a bundle's row.
SAMPLE: Final = (
    "poll_id",
    "seq",
    "fetched_at_ms",
    "broker",
    "bundle",
    *RATES,
    "topics",
    "producers",
    "consumers",
    "cache_size",
)
# The columns of the bundles of a broker's latest report, in the fold's state.
SERVED: Final = ("poll_id", "seq", "broker", "bundle", *RATES, "topics", "producers", "consumers")
# `REPORT` has the columns of the rows of brokers and gaps.
USAGE: Final = tuple(f"{name}_{part}" for name in RESOURCES for part in ("usage", "limit"))
REPORT: Final = (
    "poll_id",
    "seq",
    "fetched_at_ms",
    "kind",
    "broker",
    "report_at_ms",
    "fresh",
    "note",
    *RATES,
    "topics",
    "bundles",
    "producers",
    "consumers",
    *USAGE,
    "web_service_url",
    "pulsar_service_url",
    "broker_version",
    "load_manager",
    "persistent_topics",
    "non_persistent_topics",
    "started_at_ms",
    "load_average",
)

Table = Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class ReportRows:
    """Rows of one or more polls as equally long columns, one for each name of `COLUMNS`."""

    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        missing = COLUMNS.keys() - self.columns.keys()
        if missing:
            raise ValueError(f"report rows lack the columns {sorted(missing)}")

    def __len__(self) -> int:
        return len(self.columns["poll_id"])

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    @property
    def silent(self) -> dict[str, str]:
        """The brokers whose report could not be read, each with the reason."""
        gaps = self["kind"] == GAP
        return dict(zip(self["broker"][gaps].tolist(), self["note"][gaps].tolist(), strict=True))

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> "ReportRows":
        """Build columns from rows; a value that a row omits becomes empty, zero or false."""
        return cls(
            {
                name: np.array([row.get(name, "" if dtype == TEXT else 0) for row in rows], dtype)
                for name, dtype in COLUMNS.items()
            }
        )

    def take(self, chosen: Column) -> "ReportRows":
        """The rows at these positions, or where this mask is true."""
        return ReportRows({name: column[chosen] for name, column in self.columns.items()})


def places(names: Column, among: Column) -> Column:
    """The index of each of ``names`` in ``among``, whose values all differ; -1 for one that is not
    there.

    Uses hashes: with a million names a dictionary takes twice as long.
    """
    if not len(among):
        return np.full(len(names), -1, np.int64)
    needed, known = _hashes(names), _hashes(among)
    order, needed_order = np.argsort(known), np.argsort(needed)
    nearest = np.searchsorted(known[order], needed[needed_order])
    rows = np.empty(len(names), np.int64)
    rows[needed_order] = order[np.minimum(nearest, len(among) - 1)]
    found = known[rows] == needed
    twins = found & (among[rows] != names)
    rows[~found] = -1
    for each in np.flatnonzero(twins).tolist():
        # The search found another name with the same hash.
        rows[each] = next(iter(np.flatnonzero(among == names[each])), -1)
    return rows


def _hashes(names: Column) -> Column:
    return np.fromiter(map(hash, names.tolist()), np.int64, len(names))
