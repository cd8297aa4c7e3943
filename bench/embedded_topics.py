"""What an embedded cluster of many topics takes: ten brokers in one process, 10,000 topics.

The cluster is alone in its process and keeps messages in memory; the official client, in this one,
opens a producer on each topic and publishes one message. Memory is what the cluster's process
resides in, before the first topic and after the last.
"""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pulsar

from bench._client import connect
from bench.figures import Figure

BROKERS, TOPICS, CLIENTS = 10, 10_000, 4
CLUSTER = """
import sys, time
import counterpoise
called, used = time.perf_counter(), time.process_time()
with counterpoise.Cluster(brokers=int(sys.argv[1])) as cluster:
    took = time.perf_counter() - called, time.process_time() - used
    print(*took, cluster.service_url, flush=True)
    sys.stdin.read()
"""


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Start the cluster, load it, read its memory; ``out`` is not needed."""
    topics = TOPICS // 20 if quick else TOPICS
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER, str(BROKERS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        started, used, url = process.stdout.readline().split()
        memory = psutil.Process(process.pid).memory_info
        before = memory().rss
        began = time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as threads:
            clients = list(threads.map(lambda n: _publish(url, n, topics), range(CLIENTS)))
        took, after = time.perf_counter() - began, memory().rss
        for client, _ in clients:
            client.close()
        process.stdin.close()
    note = f"{BROKERS} brokers in one process; {float(used):.2g} s of processor"
    each = f"{topics:,} topics, on each a producer and a message of 100 bytes"
    return [
        Figure("embedded: ready after the call", float(started), "s", note=note),
        Figure("embedded: memory before the first topic", before / 1e6, "MB"),
        Figure("embedded: topics opened", topics / took, "topics/s", note=each),
        Figure("embedded: memory of a topic", (after - before) / 1e3 / topics, "kB", note=each),
    ]


def _publish(url: str, number: int, topics: int) -> tuple[pulsar.Client, list[pulsar.Producer]]:
    """A client that has published on every topic that is its, and its open producers."""
    client, producers = connect(url), []
    for topic in range(number, topics, CLIENTS):
        producers.append(client.create_producer(f"persistent://public/default/t-{topic}"))
        producers[-1].send(b"x" * 100)
    return client, producers
