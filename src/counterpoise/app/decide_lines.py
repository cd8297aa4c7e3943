"""One line of ``counterpoise decide``: a JSON object in, the strategy's answer and reasons out."""

from collections.abc import Mapping
from random import Random
from typing import Any

from counterpoise.decide.placement.least_resource_usage import place_by_store_usage
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.decide.placement.strategy import Placement, PlacementStrategy
from counterpoise.decide.shedding.strategy import Shedder
from counterpoise.decide.splitting.algorithms import ALGORITHMS
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.decide.splitting.request import SplitRequest, TopicPoint
from counterpoise.load.fields import (
    LoadDataError,
    read_integer,
    read_number,
    read_object,
    read_text,
    read_texts,
)
from counterpoise.load.topic_loads import TopicLoad
from counterpoise.load.view import ClusterView
from counterpoise.names.bundle import BundleName, format_boundary, parse_boundary
from counterpoise.names.errors import InvalidName
from counterpoise.names.hashing import topic_hash
from counterpoise.names.topic import TopicName

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


def shed_line(
    value: object, shedder: Shedder[Any, Any, Any], options: Any, memory: Any
) -> tuple[dict[str, Any], Any]:
    """Let a shedder decide on the load data of one parsed line of ``decide shed``.

    Returns its plan as JSON, and what it remembers for the next line (``memory``).
    ``activeBrokers`` in a line makes the shedder forget all other brokers
    (``onActiveBrokersChange``). Raises ``LoadDataError`` naming the field that cannot be read.
    """
    line = read_object(value, "line")
    view = shedder.view.from_load_data(line)
    if "activeBrokers" in line:
        memory = shedder.forget(memory, read_texts(line["activeBrokers"], "activeBrokers"))
    now = read_integer(line["now"], "now")
    plan = shedder.plan(view, memory, options, now, Random(0))
    return plan.to_json(), plan.memory


_LOAD_FIELDS = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")


def split_line(value: object, name: str, options: SplitOptions) -> dict[str, Any]:
    """Compute where the algorithm ``name`` splits the bundle of one parsed line.

    Returns ``{"boundaries": ["0x…"], "reason", "sentence"}``; the list of boundaries is empty if
    the bundle is not split. Raises ``LoadDataError`` naming the field that cannot be read.
    """
    line = read_object(value, "line")
    bundle = _read_bundle(line)
    topics = _read_topics(line.get("topics"))
    request = SplitRequest(bundle.range, topics, _read_positions(line.get("boundaries")))
    points = ALGORITHMS[name](request, options)
    outside = sum(topic.point not in bundle.range for topic in topics)
    sentence = points.reason
    if outside:
        sentence += f" ({outside} of the topics lie outside {bundle.range})"
    return {
        "boundaries": [format_boundary(point) for point in points.boundaries],
        "reason": points.rule,
        "sentence": sentence,
    }


def _read_bundle(line: Mapping[str, Any]) -> BundleName:
    if "bundle" not in line:
        raise LoadDataError("bundle", "tenant/namespace/0xLOWER_0xUPPER")
    text = read_text(line["bundle"], "bundle")
    try:
        return BundleName.parse(text)
    except InvalidName:
        raise LoadDataError("bundle", "tenant/namespace/0xLOWER_0xUPPER", text) from None


def _read_topics(value: object) -> list[TopicPoint]:
    if value is None:
        return []
    return [
        TopicPoint(_read_point(name), _read_load(load, f"topics[{name!r}]"))
        for name, load in read_object(value, "topics").items()
    ]


def _read_point(name: str) -> int:
    """Return a topic's hash; a complete name is hashed unparsed, as in Pulsar."""
    if "://" in name:
        return topic_hash(name)
    try:
        return topic_hash(str(TopicName.parse(name)))
    except InvalidName:
        raise LoadDataError("topics", "names such as persistent://tenant/ns/topic", name) from None


def _read_load(value: object, path: str) -> TopicLoad | None:
    if value is None:
        return None
    load = read_object(value, path)
    return TopicLoad(*(read_number(load.get(each, 0.0), f"{path}.{each}") for each in _LOAD_FIELDS))


def _read_positions(value: object) -> list[int]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise LoadDataError("boundaries", "an array of boundaries", value)
    return [_read_position(item, f"boundaries[{index}]") for index, item in enumerate(value)]


def _read_position(value: object, path: str) -> int:
    if isinstance(value, str):
        try:
            return parse_boundary(value)
        except InvalidName:
            raise LoadDataError(
                path, "0x00000000 to 0xffffffff, or a whole number", value
            ) from None
    return read_integer(value, path)
