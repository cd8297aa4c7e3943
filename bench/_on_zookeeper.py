"""Brokers of ours and of Apache Pulsar's, as processes on a ZooKeeper that runs already."""

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench._ours import Ours
from bench._real_pulsar import Children, RealPulsar, free_ports, write_conf
from counterpoise.app.clusters.processes import READY, Child, ChildSpec
from counterpoise.metadata import open_store

ROOT = "/pulsar"
"""Below it is what Pulsar's brokers keep of their cluster; the ledgers are beside it."""


@contextlib.contextmanager
def ours(
    folder: Path, zookeeper: str, environments: Sequence[Mapping[str, str]], **settings: str
) -> Iterator[Ours]:
    """A broker of ours for each environment; the process of the first one stands for them.

    ``zookeeper``: its host and port; ``settings``: of broker.conf, ``ledgerStoreUrl`` among them.
    """
    settings = {
        "advertisedAddress": "127.0.0.1",
        "metadataStoreUrl": f"zk:{zookeeper}",
        "brokerServicePort": "0",
        "webServicePort": "0",
        "loadBalancerSheddingEnabled": "false",
        **settings,
    }
    argv = [sys.executable, "-m", "counterpoise", "broker"]
    argv += [f"--set={name}={value}" for name, value in settings.items()]
    with contextlib.ExitStack() as stack:
        children = [
            stack.enter_context(
                Child.start(
                    ChildSpec(
                        name=f"ours-{number}",
                        argv=argv,
                        is_ready=lambda line: line.startswith(READY + " "),
                        log=folder / f"broker-{number}.log",
                        environment=environment,
                    )
                )
            )
            for number, environment in enumerate(environments)
        ]
        said = [json.loads(each.ready_line.partition(" ")[2]) for each in children]
        services = ",".join(each["service_url"].removeprefix("pulsar://") for each in said)
        yield Ours(f"pulsar://{services}", said[0]["admin_url"], 0.0, children[0].pid)


@contextlib.contextmanager
def real(
    lib: Path, folder: Path, zookeeper: str, brokers: int, **settings: object
) -> Iterator[RealPulsar]:
    """Brokers of Pulsar, whose messages are on the bookies of the same ZooKeeper."""
    folder.mkdir(parents=True)
    asyncio.run(_make_root(zookeeper))
    ports = free_ports(2 * brokers)
    webs, services = ports[:brokers], ports[brokers:]
    store, ledgers = f"zk:{zookeeper}{ROOT}", f"zk+hierarchical://{zookeeper}"
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
                **settings,
            }
            write_conf(folder / f"broker{index}.conf", conf)
            children.start_broker(index)
        for port in webs:
            children.wait_for(f"http://127.0.0.1:{port}/admin/v2/brokers/ready", 240)
        hosts = ",".join(f"127.0.0.1:{port}" for port in services)
        yield RealPulsar(
            f"pulsar://{hosts}", f"http://127.0.0.1:{webs[0]}", 0.0, children.pid("broker0")
        )


async def _make_root(zookeeper: str) -> None:
    store = await open_store(f"zk:{zookeeper}")
    await store.put(ROOT, b"")
    await store.close()
