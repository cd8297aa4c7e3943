"""The hooks of Apache Pulsar's brokers on Kubernetes: a patch that fits, and scripts that work."""

import copy
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulsar
import yaml

from counterpoise import Cluster
from counterpoise.app.main import main
from counterpoise.pipeline.drive.action_trail import ActionTrail, cordoned
from counterpoise.pipeline.tables.location import open_location
from tests.deploy.helm import ROOT, expect_valid
from tests.waiting import found_soon

PATCH = yaml.safe_load((ROOT / "deploy" / "kubernetes" / "broker-hooks.yaml").read_text())
BROKERS: Mapping[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "pulsar-broker"},
    "spec": {
        "serviceName": "pulsar-broker",
        "selector": {"matchLabels": {"app": "pulsar"}},
        "template": {
            "metadata": {"labels": {"app": "pulsar"}},
            "spec": {
                "terminationGracePeriodSeconds": 30,
                "containers": [{"name": "pulsar-broker", "image": "apachepulsar/pulsar:4.0.7"}],
            },
        },
    },
}


def container(pod: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    [found] = [each for each in pod["containers"] if each["name"] == name]
    return dict(found)


def patched() -> dict[str, Any]:
    """A StatefulSet of brokers with the patch: lists of containers are merged by their names."""
    merged = copy.deepcopy(dict(BROKERS))
    pod, more = merged["spec"]["template"]["spec"], PATCH["spec"]["template"]["spec"]
    broker = {**pod["containers"][0], **container(more, "pulsar-broker")}
    merged["spec"]["template"]["spec"] = {
        **pod,
        **more,
        "containers": [broker, container(more, "counterpoise")],
    }
    return merged


def test_kubernetes_accepts_the_brokers_with_the_patch() -> None:
    expect_valid(patched())
    pod = patched()["spec"]["template"]["spec"]
    volumes = {each["name"] for each in pod["volumes"]}
    for each in pod["containers"]:
        assert {mount["name"] for mount in each["volumeMounts"]} <= volumes
    assert pod["terminationGracePeriodSeconds"] == 600


class Pod:
    """Runs the patch's scripts in the place of the containers of one broker's pod."""

    def __init__(self, cluster: Cluster, directory: Path, broker: str) -> None:
        host, _, port = broker.rpartition(":")
        programs = directory / "bin"
        programs.mkdir(exist_ok=True)
        self._drain = directory / "drain"
        self._drain.mkdir(exist_ok=True)
        for name, line in {
            "hostname": f"echo {host}",
            "counterpoise": f'exec {sys.executable} -m counterpoise.app.main "$@"',
        }.items():
            (programs / name).write_text(f"#!/bin/sh\n{line}\n")
            (programs / name).chmod(0o755)
        self._environ = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "ADMIN_URL": cluster.admin_url,
            "LOCAL_URL": f"http://{broker}",
            "HISTORY": str(directory / "history"),
            "WEB_PORT": port,
            "OPTIONS": "",
        }

    def start(self, command: list[str]) -> subprocess.Popen[str]:
        """Start one of its commands."""
        script = command[-1].replace("/drain", str(self._drain))
        return subprocess.Popen(
            [*command[:-1], script],
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


def owner_of(cluster: Cluster, topic: str) -> str:
    """The broker that serves a topic, as the cluster lists it."""
    owner = cluster.owner(f"persistent://public/default/{topic}")
    assert owner is not None
    return owner.id


def test_a_pod_that_ends_is_drained_first_and_released_when_it_is_back(tmp_path: Path) -> None:
    pod = PATCH["spec"]["template"]["spec"]
    beside, broker = container(pod, "counterpoise"), container(pod, "pulsar-broker")
    settings = {"loadBalancerSheddingEnabled": False}
    with Cluster(brokers=2, config=settings) as cluster:
        client = pulsar.Client(
            cluster.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        producers = [client.create_producer(f"orders-{n}") for n in range(8)]
        leaving = owner_of(cluster, "orders-0")
        its = Pod(cluster, tmp_path, leaving)
        history = tmp_path / "history"
        watch = ["watch", "--once", "--admin-url", cluster.admin_url, "--history", str(history)]
        assert main(watch) == 0
        trail = ActionTrail(open_location(history))

        waiting = its.start(broker["lifecycle"]["preStop"]["exec"]["command"])
        draining = its.start(beside["lifecycle"]["preStop"]["exec"]["command"])
        said, _ = draining.communicate(timeout=100)
        waiting.communicate(timeout=100)
        assert (draining.returncode, waiting.returncode) == (0, 0), said
        assert all(owner_of(cluster, f"orders-{n}") != leaving for n in range(8)), said
        assert leaving in cordoned(trail.actions())

        sidecar = its.start(beside["command"])
        try:
            found_soon(lambda: leaving not in cordoned(trail.actions()), "it is released")
            assert sidecar.poll() is None
            os.killpg(sidecar.pid, signal.SIGTERM)
            sidecar.communicate(timeout=100)
            assert sidecar.returncode == 0
        finally:
            if sidecar.poll() is None:
                os.killpg(sidecar.pid, signal.SIGKILL)
                sidecar.communicate()
        for each in producers:
            each.send(b"still here")
        client.close()
