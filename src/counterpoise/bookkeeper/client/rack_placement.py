"""Chooses bookies for a ledger by their racks.

Each entry goes to a write set: ``write_quorum`` neighbours in the ensemble, whose last place is
followed by its first. Every write set is to be on a minimal number of racks, so that no rack has
all copies of an entry (Java's ``RackawareEnsemblePlacementPolicy``).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

DEFAULT_RACK: Final = "/default-rack"
"""The rack of bookies that Pulsar's map does not name."""
_STEPS_MAX: Final = 20_000
"""How many partial ensembles are examined before the search gives up."""


@dataclass(frozen=True, slots=True)
class RackPolicy:
    """How racks are respected; the defaults are Pulsar's."""

    is_enabled: bool = True
    """Whether bookies are chosen by their racks (``bookkeeperClientRackawarePolicyEnabled``)."""
    racks_min: int = 2
    """How many racks each write set spans, if there are so many
    (``bookkeeperClientMinNumRacksPerWriteQuorum``)."""
    is_enforced: bool = False
    """Whether a ledger that would span fewer racks, or use bookies without a rack, is not written
    (``bookkeeperClientEnforceMinNumRacksPerWriteQuorum``)."""


@dataclass(frozen=True, slots=True)
class PlacedEnsemble:
    """An ensemble, and whether each of its write sets is on enough racks."""

    ensemble: tuple[str, ...]
    is_spread: bool


def place_by_policy(
    policy: RackPolicy,
    kept: Sequence[str | None],
    candidates: Sequence[str],
    racks: Mapping[str, str],
    write_quorum: int,
    racks_there: int,
) -> PlacedEnsemble | None:
    """Fill the places of an ensemble that are None as `place` does; returns None if the policy
    forbids it.

    Where the policy is enforced, a bookie that has no rack is not chosen, as in Java. Otherwise no
    more racks are asked for than the cluster has (``racks_there``).
    """
    if not policy.is_enabled:
        return place(kept, candidates, racks, write_quorum, 1)
    if not policy.is_enforced:
        count = min(policy.racks_min, racks_there)
        return place(kept, candidates, racks, write_quorum, count)
    with_rack = [each for each in candidates if rack_of(each, racks) != DEFAULT_RACK]
    chosen = place(kept, with_rack, racks, write_quorum, policy.racks_min)
    return chosen if chosen is not None and chosen.is_spread else None


def place(
    kept: Sequence[str | None],
    candidates: Sequence[str],
    racks: Mapping[str, str],
    write_quorum: int,
    racks_min: int,
) -> PlacedEnsemble | None:
    """Fill the places of an ensemble that are None; None if there are too few candidates.

    ``candidates``: bookies that are not kept, the preferred ones first. If not every write set can
    be on ``racks_min`` racks, neighbours differ in their racks as far as possible.
    """
    holes = sum(each is None for each in kept)
    if len(candidates) < holes:
        return None
    count = min(racks_min, write_quorum)
    search = _Search(list(kept), candidates, racks, write_quorum, count)
    if search.fill(0):
        return PlacedEnsemble(tuple(each for each in search.ensemble if each is not None), True)
    return PlacedEnsemble(_as_different_as_possible(kept, candidates, racks), False)


class _Search:
    """Chooses a bookie for each place; it backtracks if a write set is on too few racks."""

    def __init__(
        self,
        ensemble: list[str | None],
        candidates: Sequence[str],
        racks: Mapping[str, str],
        write_quorum: int,
        racks_min: int,
    ) -> None:
        self.ensemble = ensemble
        self._racks = racks
        self._racks_min = racks_min
        size = len(ensemble)
        self._write_sets = [
            [(first + step) % size for step in range(write_quorum)] for first in range(size)
        ]
        # Bookies of one rack are alike here, so only the first that is left is tried.
        self._by_rack: dict[str, list[str]] = {}
        self._rank = {bookie: rank for rank, bookie in enumerate(candidates)}
        for each in candidates:
            self._by_rack.setdefault(rack_of(each, racks), []).append(each)
        for bookies in self._by_rack.values():
            bookies.reverse()
        self._steps = 0

    def fill(self, place: int) -> bool:
        """Choose bookies for the places from this one on; returns whether that is possible."""
        self._steps += 1
        if self._steps > _STEPS_MAX:
            return False
        if place == len(self.ensemble):
            return self._is_possible()
        if self.ensemble[place] is not None:
            return self.fill(place + 1)
        racks = [left for left in self._by_rack.values() if left]
        for left in sorted(racks, key=lambda bookies: self._rank[bookies[-1]]):
            self.ensemble[place] = bookie = left.pop()
            if self._is_possible() and self.fill(place + 1):
                return True
            left.append(bookie)
        self.ensemble[place] = None
        return False

    def _is_possible(self) -> bool:
        """Whether every write set can still be on enough racks, whatever its empty places get."""
        for places in self._write_sets:
            there = [self.ensemble[each] for each in places]
            racks = {rack_of(each, self._racks) for each in there if each is not None}
            if len(racks) + there.count(None) < self._racks_min:
                return False
        return True


def _as_different_as_possible(
    kept: Sequence[str | None], candidates: Sequence[str], racks: Mapping[str, str]
) -> tuple[str, ...]:
    left, ensemble = list(candidates), list(kept)
    for place, there in enumerate(kept):
        if there is None:
            near = (ensemble[place - 1], ensemble[(place + 1) % len(kept)])
            taken = {rack_of(each, racks) for each in near if each is not None}
            chosen = next((each for each in left if rack_of(each, racks) not in taken), left[0])
            left.remove(chosen)
            ensemble[place] = chosen
    return tuple(each for each in ensemble if each is not None)


def rack_of(bookie: str, racks: Mapping[str, str]) -> str:
    """The rack of a bookie; the default one if it is not known."""
    return racks.get(bookie, DEFAULT_RACK)


def read_racks(value: bytes, addresses: Mapping[str, str]) -> dict[str, str]:
    """Parse the racks of bookies, by id, from Pulsar's node ``/bookies``; none if it is unreadable.

    ``addresses``: ``host:port`` of each bookie, by id. The node may name a bookie by either.
    """
    try:
        groups = json.loads(value or b"{}")
        named = {
            bookie: f"/{str(info.get('rack') or '').strip('/')}"
            for group in groups.values()
            for bookie, info in group.items()
        }
    except (ValueError, AttributeError):
        return {}
    found = {each: named.get(each) or named.get(at) for each, at in addresses.items()}
    return {each: rack for each, rack in found.items() if rack and rack != "/"}
