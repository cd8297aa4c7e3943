"""The load of a topic, and the loads of a bundle's topics as a history keeps them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import orjson

from counterpoise.load.fields import LoadDataError, read_integer, read_number, read_object

BUSIEST: Final = 16
"""The most topics of a bundle whose loads are kept one by one."""
LEAST_SHARE: Final = 0.01
"""A topic with a smaller share both of the bundle's messages and of its bytes is not kept on its
own."""


class TopicLoad(NamedTuple):
    """The load of a topic: messages/s and bytes/s, in and out."""

    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0


@dataclass(frozen=True, slots=True)
class BundleTopicLoads:
    """The loads of a bundle's busiest topics by name, and the sum of the others' loads."""

    busiest: Mapping[str, TopicLoad]
    others: int
    """The number of other topics."""
    rest: TopicLoad
    """The sum of the other topics' loads."""

    @staticmethod
    def of(topics: Mapping[str, TopicLoad]) -> "BundleTopicLoads":
        """Choose the busiest among all topics of a bundle, by their share of messages or bytes.

        A rate that is negative, infinite or NaN counts as 0.
        """
        topics = {name: TopicLoad(*map(_sound, load)) for name, load in topics.items()}
        messages = sum(each.msg_rate_in + each.msg_rate_out for each in topics.values())
        through = sum(each.msg_throughput_in + each.msg_throughput_out for each in topics.values())

        def share(load: TopicLoad) -> float:
            of_messages = (load.msg_rate_in + load.msg_rate_out) / messages if messages else 0.0
            of_bytes = (load.msg_throughput_in + load.msg_throughput_out) / (through or 1.0)
            return max(of_messages, of_bytes)

        shares = {name: share(load) for name, load in topics.items()}
        named = sorted(topics, key=lambda name: (-shares[name], name))[:BUSIEST]
        busiest = {name: topics[name] for name in named if shares[name] >= LEAST_SHARE}
        others = [load for name, load in topics.items() if name not in busiest]
        rest = TopicLoad(*map(sum, zip(*others, strict=True))) if others else TopicLoad()
        return BundleTopicLoads(busiest, len(others), rest)

    def to_json(self) -> str:
        """The JSON for the column `topic_loads`; rates in the order of `TopicLoad`, to three
        decimals.
        """
        busiest = {name: _rounded(load) for name, load in self.busiest.items()}
        rest = _rounded(self.rest)
        return orjson.dumps({"busiest": busiest, "others": self.others, "rest": rest}).decode()

    @staticmethod
    def from_json(text: str) -> "BundleTopicLoads":
        """Read what `to_json` wrote; raises `LoadDataError` or `orjson.JSONDecodeError`."""
        what = "topic_loads"
        document = read_object(orjson.loads(text), what)
        busiest = read_object(document.get("busiest"), f"{what}.busiest")
        return BundleTopicLoads(
            {name: _read(rates, f"{what}.busiest[{name!r}]") for name, rates in busiest.items()},
            read_integer(document.get("others"), f"{what}.others"),
            _read(document.get("rest"), f"{what}.rest"),
        )


def _sound(rate: float) -> float:
    return rate if 0.0 <= rate < math.inf else 0.0


def _rounded(load: TopicLoad) -> list[float]:
    return [round(rate, 3) for rate in load]


def _read(rates: object, path: str) -> TopicLoad:
    if not isinstance(rates, list) or len(rates) != len(TopicLoad._fields):
        raise LoadDataError(path, "four rates", rates)
    return TopicLoad(*(read_number(rate, path) for rate in rates))
