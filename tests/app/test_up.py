"""``counterpoise broker`` and ``counterpoise up`` as processes, and that nothing stays behind."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psutil
import pulsar
import pytest

from counterpoise.app.clusters.local_cluster import LocalCluster, LocalClusterOptions
from tests.app.test_bad_input import ran, refuses

COMMAND = [sys.executable, "-m", "counterpoise.app.main"]
pytestmark = [pytest.mark.client, pytest.mark.zookeeper]


@contextmanager
def up(
    data: Path, *options: str, stderr: IO[str] | int | None = None
) -> Iterator[tuple[subprocess.Popen[str], dict[str, object]]]:
    """A running ``counterpoise up`` and what it says of itself; killed at the end if need be."""
    argv = [*COMMAND, "up", "--json", "--no-balance", "--data", str(data), "--metadata", "zk:"]
    argv += options
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=stderr, text=True, process_group=0
    ) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def descendants(process: subprocess.Popen[str]) -> dict[int, int]:
    """A descriptor for every process below this one, by which its end can be awaited."""
    found = psutil.Process(process.pid).children(recursive=True)
    return {each.pid: os.pidfd_open(each.pid) for each in found}


def assert_all_end(descriptors: dict[int, int]) -> None:
    for pid, descriptor in descriptors.items():
        try:
            assert select.select([descriptor], [], [], 100)[0], f"process {pid} still runs"
        finally:
            os.close(descriptor)


def test_it_serves_and_neither_ctrl_c_nor_a_kill_leaves_anything_behind(tmp_path: Path) -> None:
    with up(tmp_path, "--brokers", "2") as (process, addresses):
        client = pulsar.Client(
            str(addresses["service_url"]), logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        client.create_producer("hello").send(b"there")
        client.close()
        below = descendants(process)
        assert len(below) == 3
        process.send_signal(signal.SIGINT)
        assert process.wait(100) == 0
        assert_all_end(below)
    # What was sent is on disk, and a second life finds it.
    with up(tmp_path, "--brokers", "1") as (process, addresses):
        client = pulsar.Client(
            str(addresses["service_url"]), logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        reader = client.create_reader("hello", pulsar.MessageId.earliest)
        assert reader.read_next(timeout_millis=60_000).data() == b"there"
        client.close()
        below = descendants(process)
        assert len(below) == 2
        process.kill()
        assert_all_end(below)


def test_acknowledged_messages_survive_a_broker_killed_under_load(tmp_path: Path) -> None:
    soon = {"metadataStoreSessionTimeoutMillis": "2000"}
    with LocalCluster(LocalClusterOptions(brokers=2, data=tmp_path, settings=soon)) as cluster:
        client = pulsar.Client(
            cluster.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        acknowledged: list[int] = []
        producer = client.create_producer("precious", send_timeout_millis=0)

        def send(first: int, last: int) -> None:
            for number in range(first, last):

                def done(result: pulsar.Result, _: object, number: int = number) -> None:
                    if result == pulsar.Result.Ok:
                        acknowledged.append(number)

                producer.send_async(b"%d" % number, done)

        send(0, 500)
        producer.flush()
        send(500, 1000)
        owner = next(each for each in cluster.brokers if _owns(each.admin_url))
        cluster.kill(owner)
        assert not owner.alive
        send(1000, 1100)
        producer.flush()
        assert len(acknowledged) == 1100
        reader = client.create_reader("precious", pulsar.MessageId.earliest)
        got: set[int] = set()
        while len(got) < 1100:
            got.add(int(reader.read_next(timeout_millis=60_000).data()))
        assert got == set(acknowledged)
        client.close()


def _owns(admin_url: str) -> bool:
    path = "/admin/v2/broker-stats/topics"
    with urllib.request.urlopen(admin_url + path, timeout=60) as response:
        return "persistent://public/default/precious" in response.read().decode()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["up", "--brokers", "0"], "at least one broker"),
        (
            ["up", "--brokers", "1", "--no-balance", "--metadata", "etcd:x"],
            "not a metadata store URL",
        ),
        (["broker", "--set", "metadataStoreUrl=zk:127.0.0.1:1"], "metadataStoreUrl=zk:127.0.0.1:1"),
        (["broker", "--set", "webServicePort=99999"], "webServicePort"),
        (["broker", "--set", "nonsense"], "expected NAME=VALUE"),
        (["broker", "--conf", "/no/such/file"], "/no/such/file"),
    ],
)
def test_what_cannot_work_is_said_in_a_sentence(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = ran([*arguments, "--set", "metadataStoreOperationTimeoutSeconds=1"], capsys)
    refuses(ended)
    assert message in ended.err
    assert ended.err.strip().count("\n") == 0


def test_a_taken_port_is_said_in_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*COMMAND, "broker", "--set", f"webServicePort={port}", "--set", "brokerServicePort=0"],
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
    assert done.returncode == 2
    assert f"webServicePort=… (now {port})" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broker_conf_with_names_of_other_programs_is_taken(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("# ours\nnoSuchSettingOfThisVersion = a=b\ndefaultNumberOfNamespaceBundles=3\n")
    said = tmp_path / "stderr"
    with (
        said.open("w") as stderr,
        up(tmp_path / "data", "--brokers", "1", "--conf", str(conf), stderr=stderr) as (
            process,
            addresses,
        ),
    ):
        url = f"{addresses['admin_url']}/admin/v2/namespaces/public/default/bundles"
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert json.load(answer)["numBundles"] == 3
        process.terminate()
        assert process.wait(100) == 0
    # Once on the terminal, and once in the log of the broker.
    (line,) = [line for line in said.read_text().splitlines() if "noSuchSetting" in line]
    assert line == (
        "counterpoise: no settings of this version, and left alone: noSuchSettingOfThisVersion "
        f"('counterpoise doctor {conf}' says what they look like)"
    )
    logs = "".join(each.read_text() for each in (tmp_path / "data" / "logs").iterdir())
    (line,) = [line for line in logs.splitlines() if "noSuchSetting" in line]
    assert " WARNING " in line


def test_a_bad_value_is_reported_with_its_line_before_anything_starts(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("\n\ndefaultNumberOfNamespaceBundles=many\n")
    argv = [*COMMAND, "up", "--no-balance", "--data", str(tmp_path / "d"), "--conf", str(conf)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode != 0
    assert "line 3" in done.stderr
    assert not (tmp_path / "d").exists()


def test_a_zookeeper_that_dies_is_started_again_and_with_its_last_broker_it_ends(
    tmp_path: Path,
) -> None:
    with up(tmp_path, "--brokers", "1", stderr=subprocess.PIPE) as (process, addresses):
        children = psutil.Process(process.pid).children(recursive=True)
        broker = next(each for each in children if "broker" in each.cmdline())
        # No process can be made at first: its output has no place.
        log = tmp_path / "zookeeper" / "zookeeper.log"
        log.rename(tmp_path / "former.log")
        log.mkdir()
        next(each for each in children if "java" in each.name()).kill()
        assert process.stderr is not None
        assert "ZooKeeper ended with status -9" in process.stderr.readline()
        assert "ZooKeeper does not start: [Errno 21]" in process.stderr.readline()
        log.rmdir()
        while "ZooKeeper runs again" not in (line := process.stderr.readline()):
            assert "ZooKeeper does not start" in line
        request = urllib.request.Request(
            f"{addresses['admin_url']}/admin/v2/namespaces/public/after", method="PUT"
        )
        # The broker's session goes on; until it does, the answer is 503.
        status = 0
        while status not in {204, 409}:
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    status = answer.status
            except urllib.error.HTTPError as error:
                status = error.code
                error.close()
        below = descendants(process)
        broker.kill()
        assert process.wait(100) == 1
        assert_all_end(below)
