"""A Prometheus that plays one piece of a cluster again and again, at whatever moments are asked.

What it answers is spelled as Prometheus spells it, each value with the sixteen digits that a rate
has. The body of a piece is made once; for other moments only its time stamps are written again.
Started as a process: brokers, topics, port.
"""

import sys
from typing import Any

import numpy as np
from aiohttp import web

from counterpoise.names.bundle import NamespaceBundles
from counterpoise.names.hashing import topic_hash
from counterpoise.names.topic import TopicName

NAMESPACES, BUNDLES = 50, 32
_STAMP = 10
"""Digits of a time stamp in whole seconds."""
_BEGIN = b'{"status":"success","data":{"resultType":"matrix","result":['


class PlayedCluster:
    """Series of brokers and topics, of which each query gets all."""

    def __init__(self, brokers: int, topics: int) -> None:
        self.brokers = brokers
        self.topics = topics
        self._random = np.random.default_rng(1)
        self._templates: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._last: dict[str, tuple[tuple[int, int, int], bytes]] = {}

    def labels(self, kind: str) -> list[str]:
        """Those of each series; a bundle's topics are on one broker."""
        if kind == "broker":
            return [f'"instance":"broker-{each}:8080"' for each in range(self.brokers)]
        found = []
        for number in range(self.topics):
            name = f"persistent://tenant/ns-{number % NAMESPACES}/t-{number}"
            topic = TopicName.parse(name)
            bundles = NamespaceBundles.of_count(topic.namespace_name, BUNDLES)
            owner = topic_hash(str(bundles.bundle_of(topic))) % self.brokers
            space = topic.namespace_name
            found.append(
                f'"instance":"broker-{owner}:8080","namespace":"{space}","topic":"{topic}"'
            )
        return found

    def body(self, kind: str, first_s: int, step_s: int, count: int) -> bytes:
        """An answer; the last one of each kind is kept, as each piece is asked for four times."""
        asked = (first_s, step_s, count)
        if kind not in self._last or self._last[kind][0] != asked:
            if (kind, count) not in self._templates:
                self._templates[kind, count] = self._template(kind, count)
            text, places = self._templates[kind, count]
            for moment in range(count):
                stamp = np.frombuffer(str(first_s + moment * step_s).encode(), np.uint8)
                text[places[:, moment, np.newaxis] + np.arange(_STAMP)] = stamp
            self._last[kind] = asked, text.tobytes()
        return self._last[kind][1]

    def _template(self, kind: str, count: int) -> tuple[Any, Any]:
        """A body, and where its time stamps are, by series and moment."""
        labels = self.labels(kind)
        parts, places, at = [_BEGIN], [], len(_BEGIN)
        for number, each in enumerate(labels):
            more = f'"__name__":"pulsar_rate_in","cluster":"played","job":"broker",{each}'
            head = f'{{"metric":{{{more}}},"values":['.encode()
            figures = (self._random.integers(1, 300_000, count) / 60).tolist()
            values = [f'[1700000000,"{value!r}"]'.encode() for value in figures]
            lengths = np.cumsum([0, *(len(value) + 1 for value in values[:-1])])
            places.append(at + len(head) + 1 + lengths)
            parts.append(head + b",".join(values) + (b"]}," if number + 1 < len(labels) else b"]}"))
            at += len(parts[-1])
        parts.append(b"]}}")
        return np.frombuffer(b"".join(parts), np.uint8).copy(), np.array(places)


class PlayedApi:
    """Answers `query_range`."""

    def __init__(self, cluster: PlayedCluster) -> None:
        self._cluster = cluster

    async def answer(self, request: web.Request) -> web.Response:
        """The series of a query, which may be a count of them."""
        form = await request.post()
        query = str(form["query"])
        first, last, step = (round(float(str(form[name]))) for name in ("start", "end", "step"))
        if query.startswith("count"):
            counts = (f'[{at},"{self._cluster.topics}"]' for at in range(first, last + 1, step))
            text = f'{{"metric":{{"cluster":"played"}},"values":[{",".join(counts)}]}}]}}}}'
            return _json(_BEGIN + text.encode())
        if "resource_usage" in query:
            return _json(_BEGIN + b"]}}")
        kind = "broker" if query.startswith("pulsar_lb") else "topic"
        return _json(self._cluster.body(kind, first, step, (last - first) // step + 1))


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def main() -> None:
    """Serve until it is ended."""
    brokers, topics, port = map(int, sys.argv[1:])
    app = web.Application()
    app.router.add_post("/api/v1/query_range", PlayedApi(PlayedCluster(brokers, topics)).answer)
    web.run_app(app, host="127.0.0.1", port=port, print=None)


if __name__ == "__main__":
    main()
