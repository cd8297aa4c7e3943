"""Token buckets, and what is asked of them while a clock that both sides share moves on."""

from random import Random
from typing import Any

SECOND_NS = 1_000_000_000
MS = 1_000_000


def bucket_case(rng: Random) -> dict[str, Any]:
    """A bucket and up to sixty calls.

    The period is a multiple of the rate: otherwise Java carries the rest of a token in rounded
    nanoseconds, and ours exactly. Products of time and rate stay below 63 bits, where Java's wrap.
    """
    mode = rng.choice(("low", "usual", "high"))
    rate, period_ns = _rate(rng, mode)
    capacity = rng.choice((rate, rate, 10 * rate, max(1, rate // 60), rng.randint(1, 2 * rate)))
    initial = rng.choice((capacity, 0, -capacity, rng.randint(0, capacity)))
    resolution_ns = rng.choice((16 * MS, 16 * MS, MS, 1, SECOND_NS))
    calls = [_call(rng, rate, capacity, period_ns) for _ in range(rng.randint(1, 60))]
    return {
        "op": "bucket",
        "mode": mode,
        "rate": rate,
        "period": period_ns,
        "capacity": capacity,
        "initial": initial,
        "target": rng.choice((None, 1, capacity // 10)),
        "resolution": resolution_ns,
        "start": rng.choice((0, 100 * SECOND_NS, rng.randint(0, 10**15))),
        "lines": calls,
    }


def _rate(rng: Random, mode: str) -> tuple[int, int]:
    if mode == "low":
        rate = rng.randint(1, 60)
    else:
        rate = rng.randint(61, 100_000) if mode == "usual" else rng.randint(10**5, 10**6)
    if SECOND_NS % rate == 0:
        return rate, SECOND_NS
    return rate, rate * max(1, SECOND_NS // rate)


def _call(rng: Random, rate: int, capacity: int, period_ns: int) -> list[Any]:
    amount = rng.choice((0, 1, rng.randint(0, capacity), rng.randint(0, 3 * capacity)))
    kinds = ["wait", "wait", "consume", "check", "check", "contains", "tokens", "duration"]
    kind = rng.choice(kinds)
    match kind:
        case "wait":
            one_token_ns = period_ns // rate
            around = rng.choice((one_token_ns, 16 * MS, MS)) + rng.choice((-1, 0, 0, 1))
            most = 3 * SECOND_NS
            return ["wait", max(0, rng.choice((around, rng.randint(0, most), rng.randint(0, 50))))]
        case "consume" | "check":
            return [kind, amount]
        case "duration":
            return ["duration", rng.choice((None, rng.randint(1, capacity)))]
        case _:
            return [kind]
