"""The GitHub Action: its steps in their order, with nothing of this checkout around them."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest
import yaml

from tests.release.wheel import ROOT, build, link_needed, needed

pytestmark = [pytest.mark.client, pytest.mark.timeout(600)]

ACTION = yaml.safe_load((ROOT / "deploy" / "github-action" / "action.yml").read_text("utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}


class Runner:
    """A job of GitHub's, as far as a composite action sees one."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = {name: directory / name for name in ("GITHUB_OUTPUT", "GITHUB_ENV")}

    def carry_out(self, step: dict[str, str], **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a step by the shell that it names."""
        assert step["shell"] == "bash"
        mine = {
            "PATH": f"{sys.base_prefix}/bin:/usr/bin:/bin",
            "HOME": str(self.directory),
            "RUNNER_TEMP": str(self.directory),
            **{name: str(file) for name, file in self.files.items()},
            **environ,
        }
        # As GitHub starts it.
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        return subprocess.run(
            command,
            env=mine,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )

    def set_in(self, name: str) -> dict[str, str]:
        """What steps have written for those after them."""
        lines = self.files[name].read_text("utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines)

    def end(self) -> None:
        """End what is left running, as GitHub does after a job."""
        pid = self.directory / "counterpoise.pid"
        if pid.exists():
            os.kill(int(pid.read_text("utf-8")), signal.SIGTERM)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """After its first step; what pip would bring is linked, since no index is asked here."""
    directory = tmp_path_factory.mktemp("runner")
    wheel = build(directory)
    runner = Runner(directory)
    pip = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = runner.carry_out(STEPS["Install"], PACKAGE=str(wheel), **pip)
    assert done.returncode == 0, done.stdout
    link_needed(directory / "counterpoise", needed(wheel, ""))
    yield runner
    runner.end()


def test_it_says_why_no_cluster_came(runner: Runner) -> None:
    done = runner.carry_out(
        STEPS["Start"], BROKERS="1", OPTIONS="--set managedLedgerTypo=1 --port x"
    )
    assert done.returncode == 1
    assert "--port" in done.stdout
    assert not runner.files["GITHUB_ENV"].exists()


def test_the_steps_after_it_have_a_cluster(runner: Runner) -> None:
    options = "--set defaultNumberOfNamespaceBundles=2 --no-balance"
    done = runner.carry_out(STEPS["Start"], BROKERS="2", OPTIONS=options)
    assert done.returncode == 0, done.stdout
    given, outputs = runner.set_in("GITHUB_ENV"), runner.set_in("GITHUB_OUTPUT")
    assert list(outputs.values()) == list(given.values())
    assert set(outputs) == set(ACTION["outputs"])
    client = pulsar.Client(
        given["PULSAR_SERVICE_URL"], logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )
    consumer = client.subscribe("greetings", "s")
    client.create_producer("greetings").send(b"hello")
    assert consumer.receive(60_000).data() == b"hello"
    client.close()
    for path, found in (("brokers/standalone", 2), ("faults", 0)):
        with urllib.request.urlopen(f"{given['PULSAR_ADMIN_URL']}/admin/v2/{path}") as answer:
            assert len(json.load(answer)) == found
