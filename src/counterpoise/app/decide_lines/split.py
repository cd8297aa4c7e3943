"""One line of ``counterpoise decide split``: a bundle and its topics in, boundaries out."""

from collections.abc import Mapping
from typing import Any

from counterpoise.decide.splitting.algorithms import ALGORITHMS
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.decide.splitting.request import SplitRequest, TopicPoint
from counterpoise.load.fields import (
    LoadDataError,
    read_integer,
    read_number,
    read_object,
    read_text,
)
from counterpoise.load.topic_loads import TopicLoad
from counterpoise.names.bundle import BundleName, format_boundary, parse_boundary
from counterpoise.names.errors import InvalidName
from counterpoise.names.hashing import topic_hash
from counterpoise.names.topic import TopicName

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
