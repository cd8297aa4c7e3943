"""The bookies that we choose, for Java to judge whether each write set is on enough racks."""

from collections.abc import Sequence

from counterpoise.bookkeeper.client.rack_placement import (
    PlacedEnsemble,
    RackPolicy,
    place_by_policy,
)
from tests.conformance.suite import Answer, Case


def racks(case: Case) -> Answer:
    """Whether a choice was found, and whether it adheres; the choices are left in the case.

    `better`: whether Java made a choice that adheres where ours does not. Where racks are enforced
    Java gives up when its random order leads nowhere, so that we find a choice is not compared.
    """
    written: list[str | None] = list(case["written"])
    written[case["failed"]] = None
    chosen = [
        _placed(case, [None] * case["ensemble"], case["excluded"]),
        _placed(case, written, [*case["excluded"], *case["written"]]),
    ]
    case["picks"] = [None if each is None else list(each.ensemble) for each in chosen]
    return {
        "found": None if case["enforced"] else [each is not None for each in chosen],
        "adheres": [None if each is None else _adheres(case, each) for each in chosen],
        "better": [False, False],
    }


def _placed(case: Case, kept: Sequence[str | None], taken: Sequence[str]) -> PlacedEnsemble | None:
    policy = RackPolicy(racks_min=case["racks_min"], is_enforced=case["enforced"])
    candidates = [each for each in case["racks"] if each not in taken]
    known = {bookie: rack for bookie, rack in case["racks"].items() if rack}
    return place_by_policy(policy, kept, candidates, known, case["write"], len(case["racks"]))


def _adheres(case: Case, chosen: PlacedEnsemble) -> bool:
    """Where racks are enforced, no ensemble adheres for Java that has a bookie without a rack."""
    old = case["enforced"] and not all(case["racks"][each] for each in chosen.ensemble)
    return chosen.is_spread and not old
