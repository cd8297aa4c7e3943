"""``counterpoise up`` as it is without options: one process, no Java, and what outlives a kill."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pulsar
import pytest

from counterpoise.names.load_managers import MODULAR
from tests.admin.conftest import Api
from tests.app.clusters.test_shedding import COMMON, TOPICS, UNEVEN
from tests.ports import free_ports

COMMAND = [sys.executable, "-m", "counterpoise.app.main", "up"]
WITHOUT_JAVA = {k: v for k, v in os.environ.items() if k not in ("PATH", "JAVA_HOME")} | {
    "PATH": "/nonexistent"
}
pytestmark = pytest.mark.client


@contextmanager
def up(data: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    argv = [*COMMAND, "--json", "--data", str(data), *options]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=WITHOUT_JAVA) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def connect(addresses: dict[str, Any]) -> pulsar.Client:
    return pulsar.Client(
        addresses["service_url"], logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )


def admin(addresses: dict[str, Any], method: str, path: str) -> Any:
    request = urllib.request.Request(addresses["admin_url"] + path, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def test_killed_it_comes_back_with_all_that_was_acknowledged(tmp_path: Path) -> None:
    with up(tmp_path) as (process, addresses):
        assert len(addresses["brokers"]) == 3
        for each in addresses["brokers"]:
            assert each["admin_url"] == f"http://{each['id']}"
        hosts = [each["service_url"].removeprefix("pulsar://") for each in addresses["brokers"]]
        assert addresses["service_url"] == f"pulsar://{','.join(hosts)}"
        assert addresses["admin_url"] == addresses["brokers"][0]["admin_url"]
        # In place of a JVM, or one process for each broker.
        assert psutil.Process(process.pid).children() == []
        admin(addresses, "PUT", "/admin/v2/namespaces/public/mine")
        client = connect(addresses)
        client.subscribe("public/mine/precious", "s").close()
        producer = client.create_producer("public/mine/precious")
        for number in range(200):
            producer.send(b"%d" % number)
        process.kill()
        process.wait(100)
        client.close()
    with up(tmp_path, "--brokers", "2") as (process, addresses):
        assert "public/mine" in admin(addresses, "GET", "/admin/v2/namespaces/public")
        client = connect(addresses)
        consumer = client.subscribe("public/mine/precious", "s")
        got = [consumer.receive(60_000) for _ in range(200)]
        assert [each.data() for each in got] == [b"%d" % n for n in range(200)]
        for each in got:
            consumer.acknowledge(each)
        client.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(100) == 0
    with up(tmp_path, "--brokers", "1") as (process, addresses):
        # Stopped in order: what was acknowledged does not come again.
        path = "/admin/v2/persistent/public/mine/precious/stats"
        client = connect(addresses)
        client.subscribe("public/mine/precious", "s")
        assert admin(addresses, "GET", path)["subscriptions"]["s"]["msgBacklog"] == 0
        client.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(100) == 0


def test_a_skewed_load_is_evened_out_without_java(tmp_path: Path) -> None:
    settings = {**COMMON, **UNEVEN[MODULAR], "loadManagerClassName": MODULAR}
    options = [text for name, value in settings.items() for text in ("--set", f"{name}={value}")]
    with up(tmp_path, "--brokers", "2", "--balance-every", "0.3", *options) as (_, addresses):
        full, idle = (each["id"] for each in addresses["brokers"])
        client = connect(addresses)
        producers = [client.create_producer(topic) for topic in TOPICS]
        bundles = admin(addresses, "GET", "/admin/v2/namespaces/public/default/bundles")[
            "boundaries"
        ]
        for span in map("_".join, itertools.pairwise(bundles)):
            path = f"/admin/v2/namespaces/public/default/{span}/unload?destinationBroker={full}"
            assert Api(addresses["admin_url"])("PUT", path).status == 204
        moved: list[dict[str, Any]] = []
        deadline = time.monotonic() + 200
        while not moved:
            assert time.monotonic() < deadline
            for each in producers:
                each.send(b"x" * 100)
            rounds = admin(addresses, "GET", "/admin/v2/broker-stats/shedding")
            moved = [move for made in rounds for move in made["moves"]]
        assert (moved[0]["broker"], moved[0]["destination"]) == (full, idle)
        client.close()


def test_a_console_beside_it_shows_the_brokers_and_ends_with_it(tmp_path: Path) -> None:
    with up(tmp_path, "--brokers", "1", "--console") as (process, addresses):
        with urllib.request.urlopen(addresses["console_url"], timeout=60) as answer:
            assert "<title>Counterpoise</title>" in answer.read().decode()
        [console] = psutil.Process(process.pid).children()
        assert addresses["admin_url"] in console.cmdline()
        process.send_signal(signal.SIGINT)
        assert process.wait(100) == 0
        assert not console.is_running()


def test_ports_follow_each_other(tmp_path: Path) -> None:
    free = free_ports(2)
    with up(tmp_path, "--brokers", "2", "--port", str(free)) as (_, addresses):
        urls = [each["service_url"] for each in addresses["brokers"]]
        assert urls == [f"pulsar://127.0.0.1:{free + number}" for number in range(2)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--balance-option=--interval=1s"], "add --spark"),
        (["--balance-every", "0"], "must be more than 0"),
        (["--metadata", "sqlite:relative"], "not a metadata store URL"),
    ],
)
def test_what_cannot_work_is_said_in_a_sentence(
    tmp_path: Path, options: list[str], message: str
) -> None:
    argv = [*COMMAND, "--data", str(tmp_path / "d"), *options]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=250, check=False, env=WITHOUT_JAVA
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_two_cannot_share_a_directory(tmp_path: Path) -> None:
    with up(tmp_path, "--brokers", "1"):
        argv = [*COMMAND, "--data", str(tmp_path)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=250, check=False)
        assert done.returncode == 2
        assert "another process uses this file" in done.stderr
