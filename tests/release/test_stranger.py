"""A stranger's path does what it says; `make stranger` measures how long it takes."""

from pathlib import Path

import pytest

from tests.release.stranger import StumbleError, advice, first_test, local_cluster
from tests.release.wheel import build, environment, installed


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with what a stranger has installed, as a release has it."""
    directory = tmp_path_factory.mktemp("stranger")
    wheel = build(directory)
    package = installed(directory / "package", wheel)
    return environment(directory / "there", wheel, package, "demo", ("pytest",))


def test_a_stranger_gets_from_a_test_to_a_cluster_to_advice(python: Path, tmp_path: Path) -> None:
    steps: list[str] = []
    for step in (first_test, local_cluster, advice):
        step(python, tmp_path, lambda what, _: steps.append(what.partition(":")[0]))
    assert steps == [
        "pytest test_orders.py",
        "counterpoise up",
        "the official client's first message is acknowledged",
        "counterpoise advise",
    ]


def test_a_stumble_is_reported_with_its_output(tmp_path: Path) -> None:
    impostor = tmp_path / "python"
    impostor.write_text("#!/bin/sh\necho no such thing >&2\nexit 3\n", "utf-8")
    impostor.chmod(0o755)
    with pytest.raises(StumbleError, match="no such thing"):
        first_test(impostor, tmp_path, lambda *_: None)
    with pytest.raises(StumbleError, match="ended before it served"):
        local_cluster(impostor, tmp_path, lambda *_: None)
