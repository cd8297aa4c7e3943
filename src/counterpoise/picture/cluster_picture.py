"""A snapshot of a cluster with everything that a page shows at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from counterpoise.load.fold import FoldState
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.rates import Floats, Indices
from counterpoise.load.view import ClusterView

NO_OWNER: Final = -1
"""The owner of a bundle that no broker reports."""


@dataclass(frozen=True, slots=True)
class CompletedMove:
    """A move that has ended, but that load reports may not show yet.

    Apache's brokers report when their load has changed considerably, or after a quarter of an hour.
    """

    source: str
    owner: str
    at_ms: int

    def is_news(self, reported_ms: Mapping[str, int]) -> bool:
        """Whether one of the move's brokers has not reported since the move.

        `reported_ms`: the time of each broker's last report.
        """
        return any(reported_ms.get(each, 0) <= self.at_ms for each in (self.source, self.owner))


@dataclass(frozen=True, eq=False)
class ClusterPicture:
    """A snapshot of a cluster to be shown, with moves that load reports do not show yet."""

    at_ms: int
    """The time of the snapshot, in milliseconds since 1970."""
    view: ClusterView
    silent: Mapping[str, str] = field(default_factory=dict)
    """The brokers that did not answer, each with the reason."""
    trouble: str = ""
    """Why no broker could be asked; empty when the cluster answered."""
    moved: Mapping[str, CompletedMove] = field(default_factory=dict)
    """The last move of each bundle that reports may not show yet."""

    @staticmethod
    def nothing() -> "ClusterPicture":
        """The picture before the first poll."""
        return ClusterPicture(0, cluster_view(FoldState.empty(), 0))

    @cached_property
    def owners(self) -> Indices:
        """The owner of each bundle: an index into the view's brokers, or `NO_OWNER`.

        While a bundle moves two brokers may report it; the later one in order counts.
        """
        view = self.view
        owners = np.full(len(view.bundles), NO_OWNER, dtype=np.intp)
        owners[view.members] = np.repeat(np.arange(len(view.brokers)), np.diff(view.offsets))
        for bundle, moved in self.moved.items():
            row, owner = view.bundle_index(bundle), view.broker_index(moved.owner)
            known = (NO_OWNER, view.broker_index(moved.source))
            # If a third broker reports the bundle, it has moved again, and that report counts.
            if row is not None and owner is not None and owners[row] in known:
                owners[row] = owner
        return owners

    @cached_property
    def twice(self) -> Mapping[str, tuple[str, ...]]:
        """The bundles that several brokers report, since they are being moved, each with these
        brokers.
        """
        members, view = self.view.members, self.view
        if len(members) == len(view.bundles):
            return {}
        rows = np.flatnonzero(np.bincount(members, minlength=len(view.bundles)) > 1)
        return {
            view.bundles[row]: tuple(view.brokers[i] for i in view.reporters(row))
            for row in rows.tolist()
        }

    @cached_property
    def bundle_bytes(self) -> Floats:
        """Bytes/s of each bundle, in and out, averaged over the last samples."""
        return np.nan_to_num(self.view.bundle.short.throughput(), posinf=0.0, neginf=0.0)

    @cached_property
    def bundle_messages(self) -> Floats:
        """Messages/s of each bundle, in and out, averaged over the last samples."""
        return np.nan_to_num(self.view.bundle.short.rate(), posinf=0.0, neginf=0.0)

    def per_broker(self, of_bundles: Floats) -> Floats:
        """The sum of a figure of bundles over each broker's bundles."""
        owned = self.owners != NO_OWNER
        count = len(self.view.brokers)
        return np.bincount(self.owners[owned], of_bundles[owned], minlength=count).astype(float)

    @cached_property
    def ratios(self) -> Floats:
        """Each broker's bytes/s ÷ the mean; all are 1 when there is no traffic."""
        loads = self.per_broker(self.bundle_bytes)
        mean = loads.mean() if len(loads) else 0.0
        return loads / mean if mean > 0 else np.ones(len(loads))

    @cached_property
    def imbalance(self) -> float:
        """The largest broker's bytes/s ÷ the mean - 1: 0 is perfectly even."""
        return float(self.ratios.max() - 1) if len(self.ratios) else 0.0
