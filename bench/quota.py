"""The cost of one token: ours, an empty method call, Python's limiters, and Pulsar's own bucket.

Pulsar's ``AsyncTokenBucket`` (4.0.7) runs in Java alone, one thread, so that no bridge is measured.
"""

import asyncio
import importlib
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.conformance.jars import pulsar_lib

from bench.figures import Figure
from counterpoise.app.clusters.java import find_java
from counterpoise.quota import Bucket, LimitLevel, PublishFlow, RateLimit, RateLimiter, Throttle

RATE = 1_000_000
"""Permits a second: so many that no caller is refused or waits."""
CAPACITY = 10**9
BAR_NS = 200
TIMER = Path(__file__).parent / "java" / "TokenTime.java"


class _Empty:
    def consume(self, tokens: int) -> None:
        """Nothing: what a method call costs on this machine."""


def _call_ns(work: Callable[[int], object], calls: int) -> float:
    """The cost of a call with one argument in the best of nine rounds, its loop included.

    In nanoseconds; the best, because nothing but other programs makes a round slower.
    """
    samples = []
    for _ in range(9):
        started = time.perf_counter_ns()
        for _ in range(calls):
            work(1)
        samples.append((time.perf_counter_ns() - started) / calls)
    return min(samples)


def _await_ns(acquire: Callable[[], object], calls: int) -> float:
    async def turns() -> float:
        samples = []
        for _ in range(5):
            started = time.perf_counter_ns()
            for _ in range(calls):
                await acquire()  # type: ignore[misc]
            samples.append((time.perf_counter_ns() - started) / calls)
        return min(samples)

    return asyncio.run(turns())


def _limits() -> Callable[[int], object]:
    limits = importlib.import_module("limits")
    window = limits.strategies.FixedWindowRateLimiter(limits.storage.MemoryStorage())
    item = limits.RateLimitItemPerSecond(CAPACITY)
    return lambda cost: window.hit(item, "key", cost=cost)


def _pyrate() -> Callable[[int], object]:
    pyrate = importlib.import_module("pyrate_limiter")
    limiter = pyrate.Limiter(pyrate.Rate(CAPACITY, pyrate.Duration.SECOND))
    return lambda weight: limiter.try_acquire("key", weight)


def _token_bucket() -> Callable[[int], object]:
    module = importlib.import_module("token_bucket")
    limiter = module.Limiter(CAPACITY, CAPACITY, module.MemoryStorage())
    return lambda tokens: limiter.consume("key", tokens)


PEERS: dict[str, Callable[[], Callable[[int], object]]] = {
    "limits": _limits,
    "pyrate-limiter": _pyrate,
    "token-bucket": _token_bucket,
}


def _peers_ns(calls: int) -> dict[str, float]:
    """What each peer that is installed takes."""
    found = {}
    for name, make in PEERS.items():
        try:
            work = make()
        except ImportError:
            print(f"   {name} is not installed: not measured")
            continue
        # The adapter above is part of no side's cost.
        found[name] = _call_ns(work, calls) - _call_ns(lambda _: None, calls)
    return found


def _java_ns(calls: int) -> dict[str, float]:
    """What Pulsar's token bucket takes; empty without its jars."""
    lib = pulsar_lib()
    if lib is None:
        return {}
    command = [str(find_java()), "-cp", f"{lib}/*", str(TIMER), str(calls)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    lines = (line.rpartition(" ") for line in done.stdout.splitlines())
    return {what: float(ns) for what, _, ns in lines}


def _async_figures(calls: int) -> list[Figure]:
    ours = _await_ns(RateLimiter(RATE, burst=CAPACITY).acquire, calls)
    try:
        module = importlib.import_module("aiolimiter")
    except ImportError:
        return [Figure("an acquire for asyncio", ours, "ns")]
    theirs = _await_ns(module.AsyncLimiter(CAPACITY, 1).acquire, calls)
    return [
        Figure(
            "an acquire for asyncio", ours, "ns", "aiolimiter", theirs, "half", ours <= theirs / 2
        )
    ]


class _Producer(PublishFlow):
    label = "bench"

    def release(self, item: object, size: int) -> None:
        """Nothing is throttled here."""


def _offer_ns(calls: int) -> float:
    """An entry offered to limits on messages and bytes at two levels."""
    throttle, now = Throttle(), 0
    levels = (LimitLevel.TOPIC_PUBLISH, LimitLevel.BROKER_PUBLISH)
    limits = [RateLimit(level, "bench") for level in levels]
    for limit in limits:
        limit.set_rate(10**12, 10**15, now)
    flow = _Producer(throttle, tuple(limits))

    def entry(messages: int) -> None:
        if not flow.passes(messages, 100):
            throttle.offer(flow, messages, 100, None, now)

    return _call_ns(entry, calls) - _call_ns(lambda _: None, calls)


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Measure; ``out`` is not needed."""
    del out
    calls = 20_000 if quick else 200_000
    clock = time.monotonic_ns
    bucket = Bucket(RATE, clock(), capacity=CAPACITY)

    def consume(tokens: int) -> None:
        bucket.balance -= tokens

    empty = _call_ns(_Empty().consume, calls)
    check = _call_ns(lambda tokens: bucket.take(tokens, clock()), calls)
    peers, java = _peers_ns(calls // 10), _java_ns(calls * 100)
    fastest = min(peers, key=peers.__getitem__, default="")
    figures = [
        Figure("an empty method call", empty, "ns"),
        Figure(
            "consume and check",
            check,
            "ns",
            "an empty call",
            empty,
            f"at most {BAR_NS} ns",
            check <= BAR_NS,
        ),
        Figure("consume", (consumed := _call_ns(consume, calls)), "ns", "an empty call", empty),
        *(
            Figure(f"{what}, beside Pulsar", mine, "ns", "AsyncTokenBucket", java[what])
            for what, mine in (("consume and check", check), ("consume", consumed))
            if what in java
        ),
        *(
            Figure(f"consume and check, beside {name}", check, "ns", name, ns)
            for name, ns in peers.items()
        ),
    ]
    if fastest:
        best = peers[fastest]
        figures.append(
            Figure(
                "consume and check, beside the fastest",
                check,
                "ns",
                fastest,
                best,
                "half",
                check <= best / 2,
            )
        )
    figures.append(Figure("an entry at two levels of limits, not reached", _offer_ns(calls), "ns"))
    return figures + _async_figures(calls // 4)
