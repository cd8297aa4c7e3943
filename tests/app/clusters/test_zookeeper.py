"""The local ZooKeeper: it is a real one, it serves clients, and it leaves nothing behind."""

from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
from kazoo.client import KazooClient

from counterpoise.app.clusters import zookeeper
from counterpoise.app.clusters.zookeeper import ZooKeeper
from counterpoise.app.errors import UserError

pytestmark = pytest.mark.zookeeper


def test_it_answers_a_client_and_stops_on_request(tmp_path: Path) -> None:
    with ZooKeeper.start(tmp_path) as server:
        assert server.metadata_url == f"zk:127.0.0.1:{server.port}"
        client = KazooClient(server.address)
        client.start(timeout=60)
        client.create("/seen", b"1")
        client.stop()
        client.close()
        pid = server.pid
    assert not psutil.pid_exists(pid)


def test_data_in_a_directory_of_ones_own_survives(tmp_path: Path) -> None:
    with ZooKeeper.start(tmp_path) as server:
        client = KazooClient(server.address)
        client.start(timeout=60)
        client.create("/kept", b"value")
        client.stop()
        client.close()
    with ZooKeeper.start(tmp_path) as server:
        client = KazooClient(server.address)
        client.start(timeout=60)
        assert client.get("/kept")[0] == b"value"
        client.stop()
        client.close()


def test_one_that_starts_and_does_not_answer_is_stopped_and_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Mock()
    monkeypatch.setattr(zookeeper.Child, "start", lambda _: child)
    with pytest.raises(UserError, match=r"ZooKeeper on port \d+ does not answer: .*refused"):
        ZooKeeper.start(tmp_path)
    child.stop.assert_called_once()


def test_without_pyspark_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"counterpoise\[pipeline\].*--metadata"):
        ZooKeeper.start()
