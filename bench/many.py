"""Many connections, topics and bundles on one broker, beside Apache Pulsar in one run.

Ten thousand connections that do nothing; ten thousand topics opened, measured, and their bundle
unloaded while a client publishes on each; a namespace of 16,384 bundles. Then ours alone with a
hundred thousand topics, and its start with them. Memory is that of the broker and what it runs
on: ours with its ZooKeeper, Pulsar's with its bookie and its metadata, which a standalone keeps in
a database of its own and not in a ZooKeeper: what has to be looked up or written there is quicker.
"""

import statistics
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.conformance.jars import pulsar_lib

from bench._admin import call
from bench._frames import FrameConnection
from bench._frames_topics import TopicsConnection
from bench._ours import up
from bench._processes import memory_mb
from bench.beside_pulsar import Server, Servers, alternate, beside, one_broker_each, spread
from bench.figures import Figure

ROUNDS = 5
CONNECTIONS, TOPICS, MANY_TOPICS, BUNDLES, ASSIGNED = 10_000, 10_000, 100_000, 16_384, 1_000
LIMIT_S = 900.0
CONNECTION_KB, TOPIC_KB, UNLOAD_S = 15.0, 20.0, 2.0


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Measure; ``out`` is not needed."""
    del out
    lib = None if quick else pulsar_lib()
    scale, rounds = (500, 1) if quick else (1, ROUNDS)
    with one_broker_each(lib) as servers:
        figures = [
            *connections(servers, CONNECTIONS // scale),
            *bundles(servers, rounds, BUNDLES // scale, ASSIGNED // scale),
            *topics(servers, rounds, TOPICS // scale),
        ]
    figures += started(MANY_TOPICS // scale)
    # Of a few dozen, memory and waits are mostly what a broker has anyway.
    return [replace(each, bar="", holds=None) for each in figures] if quick else figures


def connections(servers: Servers, count: int) -> list[Figure]:
    """Memory for each connection that is open and idle."""
    results = {name: [{"kB": _idle(server, count)}] for name, server in servers.items()}
    figure = beside("memory of an idle connection", "kB", results, "kB", at_most=CONNECTION_KB)
    return [replace(figure, note=f"{count:,} at once")]


def _idle(server: Server, count: int) -> float:
    before = memory_mb(server.pid)
    held = [FrameConnection(server.service_url) for _ in range(count)]
    taken = memory_mb(server.pid) - before
    for each in held:
        each.close()
    return 1000 * taken / count


def bundles(servers: Servers, rounds: int, count: int, assigned: int) -> list[Figure]:
    """A namespace of many bundles, and topics in bundles that have no owner yet."""

    def measure(server: Server) -> dict[str, Any]:
        namespace = _namespace(server, count)
        made = time.perf_counter()
        ranges = call("GET", f"{server.admin_url}/admin/v2/namespaces/{namespace}/bundles")
        listed = time.perf_counter() - made
        if ranges["numBundles"] != count:
            raise SystemExit(f"{namespace} was to have {count} bundles: {ranges['numBundles']}")
        connection = FrameConnection(server.service_url)
        began = time.perf_counter()
        for number in range(assigned):
            connection.look_up(f"persistent://{namespace}/t-{number}", number)
        took = time.perf_counter() - began
        connection.close()
        return {"list_ms": 1000 * listed, "assign_ms": 1000 * took / assigned}

    results = alternate(servers, rounds, measure)
    return [
        replace(
            beside(f"{what} of a namespace of {count:,}", "ms", results, key, most_times=1.0),
            note=spread(results, key),
        )
        for what, key in (
            ("the first list", "list_ms"),
            ("a bundle that gets its owner", "assign_ms"),
        )
    ]


def topics(servers: Servers, rounds: int, count: int) -> list[Figure]:
    """Topics with a producer each, all in one bundle, which is unloaded again and again."""
    results: dict[str, list[dict[str, float]]] = {}
    for name, server in servers.items():
        opened, clients = _opened(server, count)
        results[name] = [{**opened, **_unload(server, clients)} for _ in range(rounds)]
        clients.close()
    waits = "the longest wait of a client for a bundle that is unloaded"
    figures = [
        beside("topics opened, each with a message", "topics/s", results, "opened", at_least=1.0),
        beside("memory of a topic", "kB", results, "kB", at_most=TOPIC_KB),
        beside("/metrics", "s", results, "metrics", most_times=1.0),
        beside("a bundle's unload", "s", results, "unload", at_most=UNLOAD_S),
        beside("the median wait of its clients", "s", results, "median", most_times=1.0),
        beside(waits, "s", results, "longest"),
    ]
    if "real" in results:
        bar_s = statistics.median(each["median"] for each in results["real"])
        longest = statistics.median(each["longest"] for each in results["ours"])
        bar = f"≤ Pulsar's median wait, {bar_s:.1f} s"
        figures[-1] = replace(figures[-1], bar=bar, holds=longest <= bar_s)
    note = f"{count:,} topics in one bundle"
    keys = ("unload", "median", "longest")
    return [
        *(replace(each, note=note) for each in figures[:3]),
        *(
            replace(each, note="; ".join(filter(None, (note, spread(results, key)))))
            for each, key in zip(figures[3:], keys, strict=True)
        ),
    ]


def _opened(server: Server, count: int) -> tuple[dict[str, float], TopicsConnection]:
    namespace = _namespace(server, 1)
    before = memory_mb(server.pid)
    names = [f"persistent://{namespace}/t-{number}" for number in range(count)]
    clients = TopicsConnection(server.service_url, names)
    took = max(clients.publish(LIMIT_S))
    taken = memory_mb(server.pid) - before
    url = f"{server.admin_url}/metrics/"
    metrics = [_seconds(lambda: urllib.request.urlopen(url, timeout=120).read()) for _ in range(3)]
    figures = {"opened": count / took, "kB": 1000 * taken / count}
    return {**figures, "metrics": statistics.median(metrics)}, clients


def _unload(server: Server, clients: TopicsConnection) -> dict[str, float]:
    """Seconds until the unload is answered, and until each client's next message is acknowledged;
    both from the request on.
    """
    bundle = f"{clients.namespace}/0x00000000_0xffffffff"
    answered: list[float] = []
    since = time.perf_counter()

    def unload() -> None:
        call("PUT", f"{server.admin_url}/admin/v2/namespaces/{bundle}/unload")
        answered.append(time.perf_counter() - since)

    thread = threading.Thread(target=unload)
    thread.start()
    waits = clients.after_close(since, LIMIT_S)
    thread.join()
    if not answered:
        raise SystemExit(f"the unload of {bundle} was not answered")
    return {"unload": answered[0], "median": statistics.median(waits), "longest": max(waits)}


def started(count: int) -> list[Figure]:
    """Ours with so many topics, and started again with them."""
    with tempfile.TemporaryDirectory(prefix="counterpoise-") as folder:
        with up(Path(folder), brokers=1) as server:
            opened, clients = _opened(server, count)
            clients.close()
        with up(Path(folder), brokers=1) as server:
            again = TopicsConnection(server.service_url, clients.topics[:1])
            first = max(again.publish(LIMIT_S))
            again.close()
            up_again = server.start_seconds
    note = f"{count:,} topics on one broker; ours alone"
    each = opened["kB"]
    return [
        Figure(
            "memory of a topic among many",
            each,
            "kB",
            bar=f"≤ {TOPIC_KB:g} kB",
            holds=each <= TOPIC_KB,
            note=note,
        ),
        Figure("many topics opened, each with a message", opened["opened"], "topics/s", note=note),
        Figure("/metrics of many", opened["metrics"], "s", note=note),
        Figure(
            "start with many to the first acknowledged message", up_again + first, "s", note=note
        ),
    ]


def _namespace(server: Server, bundles: int) -> str:
    name = f"public/many-{uuid.uuid4().hex[:8]}"
    policies = {"bundles": {"numBundles": bundles}}
    call("PUT", f"{server.admin_url}/admin/v2/namespaces/{name}", policies)
    return name


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
