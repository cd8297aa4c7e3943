"""Brokers of a local cluster as processes; here each is a script, which says what a test wants."""

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from counterpoise.app.clusters import local_cluster
from counterpoise.app.clusters.local_cluster import LocalCluster, LocalClusterOptions

READY = """'ready {"id": "h:1", "service_url": "pulsar://h:2", "admin_url": "http://h:1"}'"""


def test_a_broker_that_does_not_come_back_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, pid = tmp_path / "broker", tmp_path / "pid"

    def say(line: str) -> None:
        script.write_text(f"#!/bin/sh\necho $$ > {pid}\necho {line}\nexec sleep 600\n")

    say(READY)
    script.chmod(0o755)
    monkeypatch.setattr(local_cluster, "sys", SimpleNamespace(executable=str(script)))
    options = LocalClusterOptions(brokers=1, data=tmp_path, metadata_url="zk:127.0.0.1:1")
    with LocalCluster(options) as cluster:
        (broker,) = cluster.brokers
        cluster.kill(broker)
        say("ready and nothing else")
        with pytest.raises(ValueError, match="Expecting value"):
            cluster.restart(broker)
        assert not psutil.pid_exists(int(pid.read_text()))
        say(READY)
        assert cluster.restart(broker).alive
