"""One line of ``counterpoise decide place``: a bundle and its candidates in, a broker out."""

from collections.abc import Mapping
from random import Random
from typing import Any

from counterpoise.decide.placement.least_resource_usage import place_by_store_usage
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.decide.placement.strategy import Placement, PlacementStrategy
from counterpoise.load.fields import LoadDataError, read_number, read_object, read_text, read_texts
from counterpoise.load.view import ClusterView

EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.strategy.LeastResourceUsageWithWeight"
"""The full name of the extensible load manager's placement strategy.

Its short name means the modular load manager's strategy, which has the same one."""

_MODULAR = PLACEMENTS["LeastResourceUsageWithWeight"]

AnyPlacement = PlacementStrategy[Any, Any]


def place_line(
    value: object,
    strategy: AnyPlacement | None,
    options: Any,
    memory: Any,
    rng: Random | None = None,
) -> tuple[dict[str, Any], Any]:
    """Choose a broker for the bundle in one parsed line of ``decide place``.

    Returns the answer, and what the strategy remembers for the next line (``memory``). The answer
    is ``{"broker", "admissible", "reason", "sentence", "rejections"}``; ``broker`` is null if no
    broker can be chosen. ``activeBrokers`` in a line makes the strategy forget all other brokers
    (``onActiveBrokersChange``). ``strategy`` None means the extensible load manager's, with
    `PlacementOptions`; so does LeastResourceUsageWithWeight, the short name of both load managers'
    strategies, if ``loadData`` has ``brokers``. Raises ``LoadDataError`` naming the field that
    cannot be read.
    """
    line = read_object(value, "line")
    for field, expected in (("bundle", "a bundle's name"), ("loadData", "a LoadData object")):
        if field not in line:
            raise LoadDataError(field, expected)
    bundle = read_text(line["bundle"], "bundle")
    candidates = tuple(dict.fromkeys(read_texts(line.get("candidates"), "candidates")))
    data = read_object(line["loadData"], "loadData")
    placed: Placement[Any]
    if strategy is None or (strategy is _MODULAR and "brokers" in data):
        placed = place_by_store_usage(candidates, _read_usage(data), options, rng)
        return _answer(placed), memory
    view = _read_view(data)
    if "activeBrokers" in line:
        memory = strategy.forget(memory, read_texts(line["activeBrokers"], "activeBrokers"))
    placed = strategy.place(bundle, candidates, view, memory, options, rng)
    return _answer(placed), placed.memory


def _read_view(data: Mapping[str, Any]) -> ClusterView:
    try:
        return ClusterView.from_load_data(data)
    except LoadDataError as error:
        error.args = (f"loadData.{error}",)
        raise


def _read_usage(data: Mapping[str, Any]) -> dict[str, float]:
    """Read ``weightedMaxEMA`` of each broker in ``loadData`` that has ``brokerLoadData``."""
    usage = {}
    for name, entry in read_object(data.get("brokers"), "loadData.brokers").items():
        path = f"loadData.brokers[{name!r}]"
        load = read_object(entry, path).get("brokerLoadData")
        if load is not None:
            fields = read_object(load, f"{path}.brokerLoadData")
            field = f"{path}.brokerLoadData.weightedMaxEMA"
            usage[name] = read_number(fields.get("weightedMaxEMA", 1.0), field)
    return usage


def _answer(placed: Placement[Any]) -> dict[str, Any]:
    return {
        "broker": placed.broker,
        "admissible": list(placed.admissible),
        "reason": placed.rule,
        "sentence": placed.reason,
        "rejections": [each.to_json() for each in placed.rejections],
    }
