"""The worked examples of `examples/`, each run as its readers run it: ``make clients`` does.

What they need of their languages' registries comes when they are run; `RUN` says that it may.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.client

ROOT = Path(__file__).resolve().parents[2] / "examples"
RUN = "COUNTERPOISE_EXAMPLES"
COMMANDS = {
    "go": ["go", "test", "-count=1", "./..."],
    "java": ["mvn", "--quiet", "--batch-mode", "test"],
    "node": ["npm", "test"],
}
FAULT = """
import { start } from './cluster.js';
const cluster = await start();
const { fault } = await cluster.fault({ operation: 'SEND', effect: 'drop', times: 1 });
await cluster.clearFaults();
await cluster.stop();
console.log(fault);
"""


def run(command: list[str], folder: Path) -> str:
    """What a command of an example prints; it finds `counterpoise` as an installation has it."""
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("language", COMMANDS)
def test_an_example_passes(language: str, tmp_path: Path) -> None:
    if RUN not in os.environ:
        pytest.skip(f"{RUN} is not set: `make clients` sets it")
    command = COMMANDS[language]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    # A copy: what is built stays out of the checkout.
    folder = tmp_path / language
    shutil.copytree(
        ROOT / language, folder, ignore=shutil.ignore_patterns("node_modules", "target")
    )
    if language == "node" and not installed_by_npm(folder):
        pytest.skip("npm has no binary of pulsar-client for this machine, nor can it be built")
    run(command, folder)


def installed_by_npm(folder: Path) -> bool:
    """Whether npm could install Pulsar's client: its binary is not at npm's registry."""
    command = ["npm", "install", "--no-audit", "--no-fund"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def test_the_cluster_of_the_node_example_sets_a_fault(tmp_path: Path) -> None:
    """The part of it that needs nothing but Node."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    for file in ("cluster.js", "package.json"):
        shutil.copy(ROOT / "node" / file, tmp_path)
    (tmp_path / "fault.js").write_text(FAULT, "utf-8")
    said = run(["node", "fault.js"], tmp_path)
    assert said.strip() == "SEND dropped: once"
