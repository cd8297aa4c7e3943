"""Divides a limit of a cluster among its brokers: max-min fair, by what each needs.

Pulsar's ``ResourceQuotaCalculator`` gives each broker ``usage + (limit - total) * usage / total``.
Once the whole limit is used, its shares no longer change, however many producers wait at one broker
and however few at another. Here a broker whose producers wait gets a fair part of what the others
do not use, so the whole limit is available wherever it is needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

HEADROOM: Final = 0.02
"""A broker whose producers do not wait gets this part more than it uses: that it needs more shows
only if it can use more."""
FOOTHOLD: Final = 0.01
"""Every broker gets at least this fraction of an equal share, so that its first message passes."""
GROWTH: Final = 2.0
"""A broker whose producers wait claims an equal share, or this many times its usage if that is
more. It does not claim the whole limit, of which it might need little."""


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """One broker's use of a cluster-wide limit: messages (or bytes) per second that passed, and
    whether flows wait for the limit there.
    """

    usage: float
    waiting: bool


def shares(limit: int, needs: Mapping[str, GroupUsage]) -> dict[str, int]:
    """Divide a cluster-wide limit among brokers: each broker's share by its name, in sum at most
    the limit.

    ``needs`` has each broker's reported usage. The result depends on the arguments alone, so
    brokers with the same reports agree. Every share is at least 1 if the limit allows.
    """
    if not needs or limit <= 0:
        return {}
    equal = limit / len(needs)
    claims = {
        name: max(GROWTH * need.usage, equal)
        if need.waiting
        else ((1 + HEADROOM) * need.usage + FOOTHOLD * equal)
        for name, need in needs.items()
    }
    given = _fill(limit, claims)
    spare = limit - sum(given.values())
    if spare > 0:
        # What no broker claims is divided among those whose producers wait, or else among all.
        takers = [name for name, need in needs.items() if need.waiting] or list(needs)
        for name in takers:
            given[name] += spare / len(takers)
    return _whole(limit, given)


def _fill(limit: float, claims: Mapping[str, float]) -> dict[str, float]:
    """Give each broker its claim; if the sum is too large, cap the larger claims equally."""
    given: dict[str, float] = {}
    left = float(limit)
    for waiting, (claim, name) in enumerate(sorted((c, n) for n, c in claims.items())):
        given[name] = min(claim, left / (len(claims) - waiting))
        left -= given[name]
    return given


def _whole(limit: int, given: Mapping[str, float]) -> dict[str, int]:
    """Whole tokens, at least one each; the rest from rounding goes to the first by name."""
    whole = {name: max(1, int(value)) for name, value in given.items()}
    left = limit - sum(whole.values())
    for name in sorted(whole):
        if left <= 0:
            break
        whole[name] += 1
        left -= 1
    return whole
