"""Brokers of ours beside Apache Pulsar's on the same three bookies: publishing, latency, moves.

One ZooKeeper and three real bookies; each side has its brokers' metadata below a root of its own.
Two copies of every entry, both acknowledged. Rounds alternate. The quick form measures ours alone.
"""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.conformance.jars import pulsar_lib

from bench._ours import Ours, first_acknowledged
from bench._processes import cpu_seconds
from bench._real_pulsar import Children, RealPulsar, free_ports, write_conf
from bench.beside_pulsar import EXTENSIBLE, RATE, Servers, alternate, beside, client, gap, python
from bench.figures import Figure
from counterpoise.app.clusters.bookies import LocalBookies
from counterpoise.app.clusters.processes import READY, Child, ChildSpec
from counterpoise.app.clusters.zookeeper import ZooKeeper
from counterpoise.metadata import open_store

BOOKIES = 3
ROOT = "/pulsar"
"""Below it is what Pulsar's brokers keep of their cluster; the ledgers are beside it."""


def run(*, quick: bool, out: Path) -> list[Figure]:
    lib = None if quick else pulsar_lib()
    with tempfile.TemporaryDirectory(prefix="counterpoise-bench-") as text:
        folder = Path(text)
        with (
            ZooKeeper.start(folder / "zookeeper") as zookeeper,
            LocalBookies.start(BOOKIES, folder / "bookies", zookeeper.address) as bookies,
        ):
            figures = publishing(lib, folder, zookeeper, bookies, quick=quick)
            figures += moving(lib, folder, zookeeper, rounds=2 if quick else 20)
    return figures


def publishing(
    lib: Path | None, folder: Path, zookeeper: ZooKeeper, bookies: LocalBookies, *, quick: bool
) -> list[Figure]:
    """One broker each."""
    scale = 10 if quick else 1
    rounds = 1 if quick else 3
    many, few = 600_000 // scale, 60_000 // scale
    with contextlib.ExitStack() as stack:
        servers: Servers = {"ours": stack.enter_context(ours(folder / "ours-1", zookeeper, 1))}
        if lib is not None:
            servers["real"] = stack.enter_context(real(lib, folder / "real-1", zookeeper, 1))
        for each in servers.values():
            first_acknowledged(each.service_url)
        frames = "bench._frames"
        before = sum(cpu_seconds(each.pid) for each in bookies.children)
        batched = alternate(servers, rounds, client(frames, "--batched", f"--messages={many}"))
        unbatched = alternate(servers, rounds, client(frames, f"--messages={few}"))
        took = sum(cpu_seconds(each.pid) for each in bookies.children) - before
        delays = python(servers, rounds, "latency", "--rate=1000", f"--seconds={8 / scale}")
    load = os.getloadavg()[0]
    return [
        beside("frames, batches of 1,000", "msg/s", batched, RATE, at_least=1.0),
        beside("frames, unbatched", "msg/s", unbatched, RATE, at_least=1.0),
        beside(f"broker CPU for {2 * few:,} messages, unbatched", "s", unbatched, "cpu_s"),
        beside("end to end p50 at 1,000/s", "ms", delays, "p50_ms", most_times=1.0),
        beside("end to end p99 at 1,000/s", "ms", delays, "p99_ms", most_times=1.0),
        Figure("CPU of the bookies meanwhile", took, "s", note=f"load of the machine {load:.1f}"),
    ]


def moving(lib: Path | None, folder: Path, zookeeper: ZooKeeper, rounds: int) -> list[Figure]:
    """Two brokers each, a bundle unloaded again and again under 1,000 publishes a second."""
    results = {}
    with ours(folder / "ours-2", zookeeper, 2) as mine:
        results["ours"] = [gap(mine.service_url, mine.admin_url, rounds)]
    if lib is not None:
        with real(lib, folder / "real-2", zookeeper, 2) as theirs:
            results["real"] = [gap(theirs.service_url, theirs.admin_url, rounds)]
    third = 1 / 3
    return [
        beside("gap of a move, median", "ms", results, "gap_median_ms", most_times=third),
        beside("gap of a move, worst", "ms", results, "gap_max_ms", most_times=third),
        beside("moves: acknowledged and never received", "messages", results, "lost", at_most=0),
    ]


@contextlib.contextmanager
def ours(folder: Path, zookeeper: ZooKeeper, brokers: int) -> Iterator[Ours]:
    """Brokers of ours; the process of the first one stands for them."""
    url = zookeeper.metadata_url
    settings = {
        "advertisedAddress": "127.0.0.1",
        "metadataStoreUrl": url,
        "ledgerStoreUrl": f"metadata-store:{url}",
        "brokerServicePort": 0,
        "webServicePort": 0,
        "loadBalancerSheddingEnabled": "false",
    }
    argv = [sys.executable, "-m", "counterpoise", "broker"]
    argv += [f"--set={name}={value}" for name, value in settings.items()]
    with contextlib.ExitStack() as stack:
        children = [
            stack.enter_context(Child.start(ChildSpec(
                name=f"ours-{number}",
                argv=argv,
                is_ready=lambda line: line.startswith(READY + " "),
                log=folder / f"broker-{number}.log",
            )))
            for number in range(brokers)
        ]  # fmt: skip
        said = [json.loads(each.ready_line.partition(" ")[2]) for each in children]
        services = ",".join(each["service_url"].removeprefix("pulsar://") for each in said)
        yield Ours(f"pulsar://{services}", said[0]["admin_url"], 0.0, children[0].pid)


@contextlib.contextmanager
def real(lib: Path, folder: Path, zookeeper: ZooKeeper, brokers: int) -> Iterator[RealPulsar]:
    """Brokers of Pulsar on the same bookies."""
    folder.mkdir(parents=True)
    asyncio.run(_make_root(zookeeper))
    ports = free_ports(2 * brokers)
    webs, services = ports[:brokers], ports[brokers:]
    store, ledgers = f"{zookeeper.metadata_url}{ROOT}", f"zk+hierarchical://{zookeeper.address}"
    with Children(lib, folder) as children:
        children.java_once(
            "setup",
            "org.apache.pulsar.PulsarClusterMetadataSetup",
            *f"--cluster real --metadata-store {store}".split(),
            *f"--configuration-metadata-store {store}".split(),
            *f"--existing-bk-metadata-service-uri {ledgers}/ledgers".split(),
            *f"--web-service-url http://127.0.0.1:{webs[0]}".split(),
            *f"--broker-service-url pulsar://127.0.0.1:{services[0]}".split(),
        )
        for index in range(brokers):
            conf = {
                "clusterName": "real",
                "metadataStoreUrl": store,
                "configurationMetadataStoreUrl": store,
                "bookkeeperMetadataServiceUri": f"{ledgers}/ledgers",
                "bindAddress": "127.0.0.1",
                "advertisedAddress": "127.0.0.1",
                "brokerServicePort": services[index],
                "webServicePort": webs[index],
                "loadBalancerSheddingEnabled": "false",
                **EXTENSIBLE,
            }
            write_conf(folder / f"broker{index}.conf", conf)
            children.start_broker(index)
        for port in webs:
            children.wait_for(f"http://127.0.0.1:{port}/admin/v2/brokers/ready", 240)
        hosts = ",".join(f"127.0.0.1:{port}" for port in services)
        yield RealPulsar(
            f"pulsar://{hosts}", f"http://127.0.0.1:{webs[0]}", 0.0, children.pid("broker0")
        )


async def _make_root(zookeeper: ZooKeeper) -> None:
    store = await open_store(zookeeper.metadata_url)
    await store.put(ROOT, b"")
    await store.close()
