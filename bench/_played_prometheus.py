"""A Prometheus that plays one piece of a cluster again and again, at whatever moments are asked.

What it answers is spelled as Prometheus spells it, each value with the sixteen digits that a rate
has. The body of a piece is made once; for other moments only its time stamps are written anew.
"""

import sys
from functools import lru_cache

import numpy as np
from aiohttp import web

DIGITS = 10
"""Of a time stamp in whole seconds."""


class PlayedCluster:
    """Series of brokers and topics, of which each query gets all."""

    def __init__(self, brokers: int, topics: int, namespaces: int) -> None:
        self._brokers = brokers
        self._topics = topics
        self._namespaces = namespaces
        self._random = np.random.default_rng(1)

    def topic_labels(self) -> list[str]:
        """Those of each topic; a bundle's topics are on one broker."""
        from counterpoise.names.bundle import NamespaceBundles
        from counterpoise.names.topic import TopicName

        found = []
        for number in range(self._topics):
            topic = TopicName.parse(f"persistent://tenant/ns-{number % self._namespaces}/t-{number}")
            bundles = NamespaceBundles.of_count(topic.namespace_name, 32)
            owner = hash_of(str(bundles.bundle_of(topic))) % self._brokers
            found.append(
                f'"cluster":"played","instance":"broker-{owner}:8080","job":"broker",'
                f'"namespace":"{topic.namespace_name}","topic":"{topic}"'
            )
        return found

    def broker_labels(self) -> list[str]:
        return [
            f'"cluster":"played","instance":"broker-{number}:8080","job":"broker",'
            '"metric":"loadBalancing"'
            for number in range(self._brokers)
        ]

    @lru_cache(maxsize=8)  # noqa: B019 - one cluster for each process
    def template(self, kind: str, count: int) -> tuple[np.ndarray, np.ndarray]:
        """A body, and where its time stamps are, by series and moment."""
        labels = self.topic_labels() if kind == "topic" else self.broker_labels()
        parts = [b'{"status":"success","data":{"resultType":"matrix","result":[']
        at, places = len(parts[0]), []
        for number, each in enumerate(labels):
            head = f'{{"metric":{{"__name__":"pulsar_rate_in",{each}}},"values":['.encode()
            figures = self._random.integers(1, 300_000, count) / 60
            values = [f'[1700000000,"{value!r}"]'.encode() for value in figures.tolist()]
            lengths = np.cumsum([0, *(len(value) + 1 for value in values[:-1])])
            places.append(at + len(head) + 1 + lengths)
            tail = b"]}," if number < len(labels) - 1 else b"]}]}}"
            text = head + b",".join(values) + tail
            parts.append(text)
            at += len(text)
        return np.frombuffer(b"".join(parts), np.uint8).copy(), np.array(places)

    @lru_cache(maxsize=2)  # noqa: B019 - one cluster for each process
    def body(self, kind: str, first_s: int, step_s: int, count: int) -> bytes:
        text, places = self.template(kind, count)
        for moment in range(count):
            stamp = np.frombuffer(str(first_s + moment * step_s).encode(), np.uint8)
            text[places[:, moment, np.newaxis] + np.arange(DIGITS)] = stamp
        return text.tobytes()


def hash_of(name: str) -> int:
    return sum(name.encode()) * 2654435761 >> 7


async def answer(request: web.Request) -> web.Response:
    cluster: PlayedCluster = request.app["cluster"]
    form = await request.post()
    query = str(form["query"])
    first, last, step = (round(float(str(form[name]))) for name in ("start", "end", "step"))
    count = (last - first) // step + 1
    if query.startswith("count"):
        values = ",".join(f'[{at},"{cluster._topics}"]' for at in range(first, last + 1, step))
        text = f'{{"metric":{{"cluster":"played"}},"values":[{values}]}}'
        return _json(
            f'{{"status":"success","data":{{"resultType":"matrix","result":[{text}]}}}}'.encode()
        )
    if "resource_usage" in query:
        return _json(b'{"status":"success","data":{"resultType":"matrix","result":[]}}')
    kind = "broker" if query.startswith("pulsar_lb") else "topic"
    return _json(cluster.body(kind, first, step, count))


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def main() -> None:
    """Serve until it is ended: brokers, topics, namespaces, port."""
    brokers, topics, namespaces, port = map(int, sys.argv[1:])
    app = web.Application()
    app["cluster"] = PlayedCluster(brokers, topics, namespaces)
    app.router.add_post("/api/v1/query_range", answer)
    web.run_app(app, host="127.0.0.1", port=port, print=None)


if __name__ == "__main__":
    main()
