"""Chooses the destination that Pulsar's own leader would choose for a bundle that it sheds.

The modular manager's leader chooses as for a lookup: by the policies' filters, then those brokers
that have the fewest bundles of the namespace, then the placement strategy. The bundle's own broker
is a candidate; if it is chosen, the bundle stays. All bundles of a round are placed by what was
reported before it, so several may go to one broker.

Parity: ``ModularLoadManagerImpl.doLoadShedding`` of 4.0.7.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.only import Only
from counterpoise.decide.placement.selection import Chooser, Selection, Surroundings, select_modular
from counterpoise.decide.plan import Decision, Rejection
from counterpoise.load.view import ClusterView
from counterpoise.names.bundle import namespace_of

_NOTHING: Mapping[str, int] = MappingProxyType({})


def select_as_leader(
    decision: Decision,
    answering: Collection[str],
    chooser: Chooser[Any],
    memory: Any,
    filters: FilterOptions,
    given: Mapping[str, int] = _NOTHING,
) -> Selection[Any]:
    """Choose the destination that Pulsar's leader would choose for a bundle that is shed.

    ``placement.admissible`` of the result lists every broker that Pulsar's random choice could have
    returned. ``given`` has, by broker, how many bundles of the namespace were placed there and are
    not reported yet.
    """
    view = chooser.view
    reported = _bundles_of(view, namespace_of(decision.bundle))
    around = Surroundings(
        brokers=[broker for broker in view.brokers if broker in answering],
        namespace_bundles=reported + Counter(given) if given else reported,
    )
    if decision.destination is not None:
        # As AvgShedder's own placement does: it prefers the destination that its shedder planned.
        wanted = Only(decision.destination, "the strategy chose it", chooser.strategy)
        chooser = replace(chooser, strategy=wanted)
    return select_modular(decision.bundle, around, chooser, memory, filters)


def stays(decision: Decision, chosen: Selection[Any]) -> Rejection | None:
    """Why a shed bundle stays on its broker, which was chosen again; None when it moves."""
    if chosen.broker is None:
        why = chosen.placement.reason
    elif chosen.broker == decision.source:
        why = f"its own broker is chosen again: {chosen.placement.reason}"
    else:
        return None
    return Rejection(
        decision.bundle, "own-broker", None, None, "", "{subject} stays: {why}", {"why": why}
    )


def _bundles_of(view: ClusterView, namespace: str) -> Counter[str]:
    """How many bundles of a namespace each broker reports."""
    rows = _rows_of(view.bundles, namespace)
    if not rows:
        return Counter()
    mine = np.zeros(len(view.bundles), np.bool_)
    mine[rows] = True
    owners = np.searchsorted(view.offsets, np.flatnonzero(mine[view.members]), side="right") - 1
    counts = np.bincount(owners, minlength=len(view.brokers))
    return Counter(dict(zip(view.brokers, counts.tolist(), strict=True)))


def _rows_of(bundles: tuple[str, ...], namespace: str) -> list[int]:
    """The rows of a namespace's bundles in a view, whose bundles are sorted by name."""
    near = range(len(bundles))
    if namespace:
        # "0" is the character after "/", so this range has all names that begin with "{namespace}/"
        near = range(bisect_left(bundles, f"{namespace}/"), bisect_left(bundles, f"{namespace}0"))
    return [row for row in near if namespace_of(bundles[row]) == namespace]
