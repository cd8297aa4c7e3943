"""A cluster at one moment, as every goal of a round reads it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from counterpoise.decide.balancing.policies import PlacementPolicies
from counterpoise.load.fold import FoldState
from counterpoise.load.fold_view import cluster_view, newest_measured
from counterpoise.load.rates import Rates
from counterpoise.load.view import ClusterView


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Loads, owners and placement policies of a cluster at one moment.

    Which bundles are within their grace period is not part of it: the goal knows that from its
    memory.
    """

    view: ClusterView
    answering: Collection[str] = ()
    """The brokers whose report could be read: only they are given bundles."""
    owned: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The bundles of each broker that answered, as the broker itself lists them. Empty if the
    brokers were not asked; then the view's reports say which broker has what."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """The brokers that could not be read, each with the reason."""
    policies: PlacementPolicies | None = None
    """Which broker may have which bundle; None if no policies could be read."""
    connections: Mapping[str, int] = field(default_factory=dict)
    """By bundle: the number of its producers and consumers."""
    source: str = ""
    """From where the snapshot was read, as messages show it."""
    state: FoldState | None = None
    """The folded reports behind `view`; None if the snapshot was made without them."""
    newest: Rates | None = None
    """Each bundle's rates in the newest report, for a snapshot without `state`."""
    cordoned: Mapping[str, str] = field(default_factory=dict)
    """Brokers that get no bundles by an operator's order, each with a sentence on the order."""

    @property
    def measured(self) -> Rates | None:
        """Each bundle's rates in the newest report, in the view's order; None if not known."""
        if self.newest is not None or self.state is None:
            return self.newest
        return newest_measured(self.state, self.view)

    @property
    def brokers(self) -> tuple[str, ...]:
        """All brokers that the cluster lists, sorted."""
        return tuple(sorted({*self.owned, *self.silent}))


def snapshot_of(state: FoldState, policies: PlacementPolicies | None = None) -> ClusterSnapshot:
    """Make a snapshot of the folded reports, as of the newest poll."""
    view = cluster_view(state, newest_poll(state))
    return ClusterSnapshot(view, answering_brokers(state), policies=policies, state=state)


def newest_poll(state: FoldState) -> int:
    """The id (ms since 1970) of the newest poll in a state; 0 when no broker was ever read."""
    polls = state.brokers["poll_id"]
    return int(polls.max()) if len(polls) else 0


def answering_brokers(state: FoldState) -> frozenset[str]:
    """The brokers whose report was read at the newest poll. Only they may receive bundles."""
    brokers = state.brokers
    current = brokers["poll_id"] == newest_poll(state)
    return frozenset(brokers["broker"][current])


def part_of(view: ClusterView, bundle: str) -> float:
    """A bundle's fraction of the cluster's bytes/s, by its short average; 0 where unknown.

    Brokers whose figure is NaN are left out of the total.
    """
    carried = view.broker.traffic.throughput()
    row, whole = view.bundle_index(bundle), float(carried[np.isfinite(carried)].sum())
    if row is None or whole <= 0:
        return 0.0
    part = view.bundle.short.throughput_of(row) / whole
    return part if np.isfinite(part) else 0.0
