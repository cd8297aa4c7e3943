"""Make a failing case small: fewer lines, brokers, bundles and settings, rounder numbers."""

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

from tests.conformance.suite import Case

ROUNDS_MAX = 60


def minimise(
    case: Case,
    smaller: Callable[[Case], Iterator[Case]],
    failing: Callable[[list[Case]], int | None],
    batch: int = 40,
) -> Case:
    """The smallest case found that still fails.

    `failing` answers the index of the first case of a batch that fails, or None; the judge is
    asked about a whole batch at once.
    """
    for _ in range(ROUNDS_MAX):
        found = None
        waiting: list[Case] = []
        for candidate in smaller(case):
            waiting.append(candidate)
            if len(waiting) == batch:
                index = failing(waiting)
                if index is not None:
                    found = waiting[index]
                    break
                waiting = []
        else:
            index = failing(waiting) if waiting else None
            found = None if index is None else waiting[index]
        if found is None:
            return case
        case = found
    return case


def smaller_load_data(case: Case) -> Iterator[Case]:
    """Simpler variants of a case whose lines hold `brokerData` and `bundleData`."""
    yield from fewer_lines(case)
    yield from _without_settings(case)
    brokers = sorted({name for line in case["lines"] for name in line.get("brokerData", ())})
    for chunk in _chunks(brokers):
        yield _edited(case, lambda line, chunk=chunk: _drop(line["brokerData"], chunk))
    bundles = sorted({name for line in case["lines"] for name in line.get("bundleData", ())})
    for chunk in _chunks(bundles):
        yield _edited(case, lambda line, chunk=chunk: _drop_bundles(line, chunk))
    reported = sorted(
        {
            name
            for line in case["lines"]
            for data in line.get("brokerData", {}).values()
            for name in data["localData"].get("bundles", ())
        }
        - set(bundles)
    )
    for chunk in _chunks(reported):
        yield _edited(case, lambda line, chunk=chunk: _drop_bundles(line, chunk))
    if any(line.get("recentlyUnloadedBundles") for line in case["lines"]):
        yield _edited(case, lambda line: line.update(recentlyUnloadedBundles={}))
    yield from rounder_numbers(case)


def smaller_transfer(case: Case) -> Iterator[Case]:
    """Simpler variants of a case for TransferShedder."""
    yield from fewer_lines(case)
    yield from _without_settings(case)
    brokers = sorted({name for line in case["lines"] for name in line["brokers"]})
    for chunk in _chunks(brokers):
        yield _edited(case, lambda line, chunk=chunk: _drop_transfer_brokers(line, chunk))
    for index, line in enumerate(case["lines"]):
        for broker, data in line["brokers"].items():
            top = (data.get("topBundlesLoadData") or {}).get("topBundlesLoadData") or []
            for position in range(len(top)):
                made = copy.deepcopy(case)
                target = made["lines"][index]["brokers"][broker]["topBundlesLoadData"]
                del target["topBundlesLoadData"][position]
                yield made
    for key in ("recentlyUnloadedBundles", "recentlyUnloadedBrokers"):
        if any(line.get(key) for line in case["lines"]):
            yield _edited(case, lambda line, key=key: line.update({key: {}}))
    yield from rounder_numbers(case)


def smaller_placement(case: Case) -> Iterator[Case]:
    """Simpler variants of a case whose requests each hold a `loadData`."""
    requests = case["requests"]
    for chunk in _chunks(list(range(len(requests)))):
        kept = [request for i, request in enumerate(requests) if i not in chunk]
        if kept:
            yield {**case, "requests": kept}
    yield from _without_settings(case)
    names = sorted({name for request in requests for name in request["candidates"]})
    for chunk in _chunks(names):
        yield {
            **case,
            "requests": [
                {**request, "candidates": [b for b in request["candidates"] if b not in chunk]}
                for request in requests
            ],
        }
    yield from rounder_numbers(case)


def rounder_numbers(case: Case) -> Iterator[Case]:
    """The same case with one number at a time made zero, else rounded."""
    for key in ("lines", "requests", "conf"):
        for path, value in _numbers(case.get(key), (key,)):
            if path[-1] in {"now", "limit", "updatedAt"} or not math.isfinite(value):
                continue
            for simple in (0.0, float(round(value)), float(f"{value:.2g}")):
                if simple != value and abs(simple) <= abs(value) * 2:
                    yield _with(case, path, type(value)(simple))
                    break


def fewer_lines(case: Case) -> Iterator[Case]:
    lines = case["lines"]
    for chunk in _chunks(list(range(len(lines)))):
        kept = [line for i, line in enumerate(lines) if i not in chunk]
        if kept:
            yield {**case, "lines": kept}


def _without_settings(case: Case) -> Iterator[Case]:
    for name in sorted(case.get("conf", ())):
        yield {**case, "conf": {k: v for k, v in case["conf"].items() if k != name}}


def _chunks(items: list[Any]) -> Iterator[set[Any]]:
    """Halves, quarters, … and single items, biggest first."""
    size = len(items) // 2
    while size >= 1:
        for start in range(0, len(items), size):
            yield set(items[start : start + size])
        size //= 2
    if len(items) == 1:
        yield set(items)


def _edited(case: Case, edit: Callable[[Any], object]) -> Case:
    made = {**case, "lines": copy.deepcopy(case["lines"])}
    for line in made["lines"]:
        edit(line)
    return made


def _drop(table: dict[str, Any], names: set[str]) -> None:
    for name in names:
        table.pop(name, None)


def _drop_bundles(line: dict[str, Any], names: set[str]) -> None:
    _drop(line["bundleData"], names)
    _drop(line.get("recentlyUnloadedBundles", {}), names)
    for data in line["brokerData"].values():
        local = data["localData"]
        local["bundles"] = [bundle for bundle in local.get("bundles", ()) if bundle not in names]


def _drop_transfer_brokers(line: dict[str, Any], names: set[str]) -> None:
    _drop(line["brokers"], names)
    _drop(line.get("recentlyUnloadedBrokers", {}), names)
    if "availableBrokers" in line:
        line["availableBrokers"] = [b for b in line["availableBrokers"] if b not in names]


def _numbers(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], float]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _numbers(item, (*path, index))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def _with(case: Case, path: tuple[Any, ...], value: float) -> Case:
    made = copy.deepcopy(case)
    target: Any = made
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return made
