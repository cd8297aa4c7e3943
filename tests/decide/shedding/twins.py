"""The same decisions the slow way: loops over the JSON, no columns, one bundle at a time.

Each twin reads a parsed line and gives {broker: [bundle, ...]} in order, as its strategy should.
"""

import math
from functools import cmp_to_key
from typing import Any

import numpy as np

Chosen = dict[str, list[str]]


def double_compare(left: float, right: float) -> int:
    """``Double.compare``."""
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) - math.isnan(right)
    if left == right == 0:
        return int(math.copysign(1, left) - math.copysign(1, right))
    return (left > right) - (left < right)


def usage(local: dict[str, Any]) -> float:
    largest = -math.inf
    for resource in ("cpu", "bandwidthIn", "bandwidthOut", "directMemory"):
        used, limit = local[resource]["usage"], local[resource]["limit"]
        percent = np.float32(0.0)
        if limit > 0:
            with np.errstate(all="ignore"):
                percent = np.float32(used) / np.float32(limit) * np.float32(100)
        weighted = float(percent) * (0.0 if resource == "directMemory" else 1.0)
        if weighted > largest:
            largest = weighted
    return largest / 100.0


def total(local: dict[str, Any], what: str) -> float:
    return float(local[f"msg{what}In"]) + float(local[f"msg{what}Out"])


def candidates(line: dict[str, Any], broker: str, what: str) -> list[tuple[str, float]]:
    local = line["brokerData"][broker]["localData"]
    found = [
        (name, total(data["shortTermData"], what))
        for name, data in sorted(line["bundleData"].items())
        if name in local["bundles"]
        and name not in line["recentlyUnloadedBundles"]
        and not name.startswith("pulsar/host:1/")
    ]
    return sorted(found, key=cmp_to_key(lambda a, b: double_compare(b[1], a[1])))


def greedy(found: list[tuple[str, float]], need: float) -> list[str]:
    taken: list[str] = []
    marked = 0.0
    for name, value in found:
        if not taken or marked < need:
            taken.append(name)
            marked += value
    return taken


def overload(line: dict[str, Any], threshold: float = 0.85) -> Chosen:
    chosen: Chosen = {}
    for broker, entry in sorted(line["brokerData"].items()):
        local, used = entry["localData"], usage(entry["localData"])
        if used < threshold or len(set(local["bundles"])) <= 1:
            continue
        need = total(local, "Throughput") * (used - threshold + 0.05)
        if taken := greedy(candidates(line, broker, "Throughput"), need):
            chosen[broker] = taken
    return chosen


def threshold(
    line: dict[str, Any],
    past: dict[str, float],
    floor: float,
    lower: bool,
    share: float = 0.1,
    history: float = 0.9,
) -> Chosen:
    """Moves ``past`` on, as the class moves its own map."""
    brokers = sorted(line["brokerData"])
    chosen: Chosen = {}

    def average() -> float:
        sums = 0.0
        for broker in brokers:
            now = usage(line["brokerData"][broker]["localData"])
            before = past.get(broker)
            past[broker] = now if before is None else before * history + (1 - history) * now
            sums += past[broker]
        return sums / len(brokers) if brokers else 0.0

    def shed(broker: str, need: float) -> None:
        if many(line, broker) and (taken := greedy(candidates(line, broker, "Throughput"), need)):
            chosen[broker] = taken

    middle = average()
    if middle == 0:
        return chosen
    for broker in brokers:
        if past[broker] < middle + share:
            continue
        load = total(line["brokerData"][broker]["localData"], "Throughput")
        need = load * (past[broker] - middle - share + 0.05)
        if not need < floor * 1048576.0:
            shed(broker, need)
    if chosen or not lower:
        return chosen
    middle = average()
    busiest = _busiest(line, past, middle - share)
    if busiest is not None and any(past[broker] < middle - share for broker in brokers):
        need = total(line["brokerData"][busiest]["localData"], "Throughput") * share * 0.5
        if not floor * 1048576.0 > need:
            shed(busiest, need)
    return chosen


def many(line: dict[str, Any], broker: str) -> bool:
    return len(set(line["brokerData"][broker]["localData"]["bundles"])) > 1


def _busiest(line: dict[str, Any], past: dict[str, float], best: float) -> str | None:
    busiest = None
    for broker in sorted(line["brokerData"]):
        if past[broker] > best and many(line, broker):
            best, busiest = past[broker], broker
    return busiest


def _int(value: float) -> int:
    if math.isnan(value):
        return 0
    return int(max(-(2.0**31), min(2.0**31 - 1, value)))


def _wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def uniform(line: dict[str, Any], least_throughput: int = 1048576) -> Chosen:
    most = {"Rate": -1.0, "Throughput": -1.0}
    least = {"Rate": 2147483647.0, "Throughput": 2147483647.0}
    source: dict[str, str] = {}
    for broker, entry in sorted(line["brokerData"].items()):
        for what, before in list(most.items()):
            value = total(entry["localData"], what)
            if value > before:
                most[what], source[what] = value, broker
            if value < least[what]:
                least[what] = value
    for what, value in least.items():
        if -1e-6 <= value <= 1e-6:
            least[what] = 1.0
    if (most["Rate"] - least["Rate"]) * 100 / least["Rate"] > 50:
        what, minimum = "Rate", 1000
    elif most["Throughput"] / least["Throughput"] > 4:
        what, minimum = "Throughput", least_throughput
    else:
        return {}
    broker = source[what]
    left = _int((most[what] - least[what]) * 0.2)
    if len(set(line["brokerData"][broker]["localData"]["bundles"])) <= 1 or left < minimum:
        return {}
    taken = []
    for name, value in candidates(line, broker, what):
        if value <= _wrap(left + 1000):
            taken.append(name)
            left = _wrap(left + _int(-value))
    return {broker: taken} if taken else {}


def avg(line: dict[str, Any], low: dict[str, int], high: dict[str, int]) -> Chosen:
    """Moves the two counters on, as the class moves its own maps."""
    scores = {b: usage(e["localData"]) * 100 for b, e in sorted(line["brokerData"].items())}
    order = sorted(scores, key=cmp_to_key(lambda a, b: double_compare(scores[a], scores[b])))
    first, last, pairs = 0, len(order) - 1, []
    while first <= last:
        idle, busy = order[first], order[last]
        first, last = first + 1, last - 1
        gap = scores[busy] - scores[idle]
        if gap < 15:
            for broker in (idle, busy):
                low.pop(broker, None)
                high.pop(broker, None)
            continue
        pairs.append((idle, busy))
        for broker in (idle, busy):
            low[broker] = low.get(broker, 0) + 1
            if gap < 40:
                high.pop(broker, None)
            else:
                high[broker] = high.get(broker, 0) + 1
    if not pairs:
        low.clear()
        high.clear()
    chosen: Chosen = {}
    for idle, busy in pairs:
        if not any(high.get(b, 0) >= 2 or low.get(b, 0) >= 8 for b in (idle, busy)):
            continue
        for broker in (idle, busy):
            low.pop(broker, None)
            high.pop(broker, None)
        locals_ = [line["brokerData"][b]["localData"] for b in (idle, busy)]
        for what, minimum in (("Rate", 1000), ("Throughput", 1048576)):
            quota = (total(locals_[1], what) - total(locals_[0], what)) * 0.2
            if quota > minimum:
                for name, value in candidates(line, busy, what):
                    if 0 < value <= quota:
                        chosen.setdefault(busy, []).append(name)
                        quota -= value
                break
    return chosen
