"""The images: what their files say, and a cluster that is started as an image starts it."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pulsar
import pytest

from counterpoise.app.main import full_parser
from tests.deploy.dockerfile import Stage, below, carry_out, stages
from tests.deploy.helm import CHART, ROOT
from tests.ports import free_ports
from tests.waiting import found_soon

FILES = sorted((ROOT / "deploy" / "docker").glob("*.Dockerfile"))
CLUSTER = next(each for each in FILES if each.name.startswith("cluster"))
BUILT = "COUNTERPOISE_IMAGE_STEPS"
"""Set by `python -m tests.deploy`: carry the steps of the cluster's image out, by pip's index."""
LAYER_MOST = 75e6
"""Bytes of the installed packages, compressed as a registry sends them; 120 MB less the base."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_an_image_is_small_pinned_and_runs_as_no_super_user(file: Path) -> None:
    build, image = stages(file)
    assert build.base == image.base == "python:3.11-slim-bookworm"
    installs = [text for text in build.all("RUN") if " install " in text]
    assert installs
    assert all("--constraint constraints.txt" in text for text in installs)
    assert image.last("USER") == "10001"
    assert [kind for kind, _ in image.steps].index("USER") > max(
        place for place, (kind, _) in enumerate(image.steps) if kind in ("RUN", "COPY")
    )
    assert not [text for text in image.all("COPY") if not text.startswith("--from=build ")]
    compile(image.words("HEALTHCHECK")[2], "healthcheck", "exec")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_what_is_copied_is_there_and_let_through(file: Path) -> None:
    passed = (ROOT / ".dockerignore").read_text().splitlines()
    for text in stages(file)[0].all("COPY"):
        for source in text.split()[:-1]:
            assert (ROOT / source).exists()
            assert f"!{source}" in passed


def test_the_balancers_image_is_the_one_that_the_chart_runs() -> None:
    image = stages(FILES[FILES.index(CLUSTER) - 1])[-1]
    assert image.words("ENTRYPOINT") == ["counterpoise"]
    assert image.words("CMD")[0] == "balance"
    assert "openjdk-17" in image.all("RUN")[0]
    values = (CHART / "values.yaml").read_text()
    assert "repository: counterpoise-balancer" in values
    assert "runAsUser: 10001" in values
    assert f"port: {image.last('EXPOSE')}" in values


def entrypoint(image: Stage, first: int, web: int) -> list[str]:
    """The image's command on other ports: 6650 and 8080 may be taken on this machine."""
    words = image.words("ENTRYPOINT")
    assert f"--port {6650} --web-port {8080}" in words[2]
    words[2] = words[2].replace("--port 6650", f"--port {first}")
    words[2] = words[2].replace("--web-port 8080", f"--web-port {web}")
    # Loopback only: it stands for the network of a container.
    words[2] = words[2].replace("bindAddress=0.0.0.0", "bindAddress=127.0.0.1")
    return words


def first_acknowledgement_s(command: list[str], environ: dict[str, str], first: int) -> float:
    """Starts a cluster, publishes through each of its brokers, checks its health, and stops it."""
    began = time.monotonic()
    cluster = subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert cluster.stdout is not None
        found_soon(cluster.stdout.readline, "it serves")
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        took = 0.0
        for broker in range(3):
            url = f"pulsar://localhost:{first + broker}"
            client = pulsar.Client(url, logger=logger)
            producer = client.create_producer(f"through-{broker}")
            producer.send(b"hello")
            took = took or time.monotonic() - began
            client.close()
        cluster.send_signal(signal.SIGTERM)
        assert cluster.wait(timeout=100) == 0
        cluster.stdout.close()
    finally:
        cluster.kill()
        cluster.wait()
    return took


def test_the_clusters_image_starts_three_brokers_that_clients_reach() -> None:
    image = stages(CLUSTER)[-1]
    first, web = free_ports(3), free_ports(3)
    words = entrypoint(image, first, web)
    shown = re.search(r"exec counterpoise (.*) \"\$@\"", image.words("ENTRYPOINT")[2])
    assert shown is not None
    parsed = full_parser().parse_args(shown[1].replace('"$ADVERTISED_ADDRESS"', "h").split())
    assert (parsed.verb, parsed.brokers, parsed.faults) == ("up", 3, True)
    environ = {**os.environ, **image.environ}
    environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    assert first_acknowledgement_s(words, environ, first) > 0


@pytest.mark.skipif(BUILT not in os.environ, reason=f"{BUILT} is not set: python -m tests.deploy")
@pytest.mark.timeout(900)
def test_its_steps_make_an_image_that_is_small_and_runs(tmp_path: Path) -> None:
    build, image = stages(CLUSTER)
    carry_out(build, ROOT, tmp_path)
    layer = subprocess.run(
        ["tar", "cz", "-C", str(tmp_path), "opt"], capture_output=True, check=True
    ).stdout
    first, web = free_ports(3), free_ports(3)
    environ = {"HOME": str(tmp_path), **image.environ}
    environ["PATH"] = f"{below(image.environ['PATH'].partition(':')[0], tmp_path)}:/usr/bin:/bin"
    command = entrypoint(image, first, web)
    took = [first_acknowledgement_s(command, environ, first) for _ in range(3)]
    sys.stdout.write(
        f"\n{len(layer) / 1e6:.1f} MB compressed, first receipt after {sorted(took)} s\n"
    )
    assert len(layer) <= LAYER_MOST
