"""What the story and the recording have in common: the cluster's settings, load, and commands."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from tests.waiting import answer_within

ROOT = Path(__file__).parents[2]
NAMESPACE = "public/drive"
MESSAGES_A_SECOND = 300
PATIENCE = 3
"""How many times as long as on a quiet machine something may take."""

COMMON = {
    "statsUpdateFrequencyInSecs": 10,
    "loadBalancerReportUpdateMinIntervalMillis": 5000,
    "loadBalancerReportUpdateThresholdPercentage": 1,
    "loadBalancerAutoBundleSplitEnabled": "false",
    # A machine with eight of these and a client on it is slow now and then.
    "metadataStoreSessionTimeoutMillis": 120_000,
    "minUnloadMessage": 10,
    "minUnloadMessageThroughput": 1000,
    "maxUnloadPercentage": 0.3,
}
CLASSES = {
    "modular": (MODULAR, "org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder"),
    "extensible": (
        EXTENSIBLE,
        "org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder",
    ),
}


def settings(manager: str, **more: object) -> dict[str, object]:
    """The broker.conf of a cluster under a load manager."""
    name, shedder = CLASSES[manager]
    return {
        **COMMON,
        "loadManagerClassName": name,
        "loadBalancerLoadSheddingStrategy": shedder,
        **more,
    }


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "PYTHONUNBUFFERED": "1",
    }


def counterpoise(*words: str) -> list[str]:
    return [sys.executable, "-m", "counterpoise.app.main", *words]


class Started:
    """One command that runs beside others; what it says is in a file."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        self.log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                words, stdout=file, stderr=subprocess.STDOUT, env=environment(), cwd=log.parent
            )

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, words: str, seconds: float, after: int = 0) -> bool:
        """Whether it says these words in time, behind so many characters of what it said."""

        def is_over() -> bool:
            ended = self.process.poll() is not None  # before its text is read for the last time
            return words in self.text[after:] or ended

        answer_within(is_over, PATIENCE * seconds, 0.2)
        return words in self.text[after:]

    def end(self, seconds: float = 90) -> int:
        """Stop it as Ctrl-C's cousin does, and give its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return -9


@contextlib.contextmanager
def load(
    url: str,
    home: Path,
    phase_s: float = 1e9,
    seed: int = 0,
    namespace: str = NAMESPACE,
    rate: float = MESSAGES_A_SECOND,
) -> Iterator[Started]:
    """The load, once every producer is there; ended with the block, whatever happens.

    Several namespaces are one text with commas; each has the busiest topics of a seed of its own.
    """
    words = [sys.executable, "-m", "tests.real.load", url, namespace]
    log = home / f"load-{namespace.partition(',')[0].replace('/', '-')}.txt"
    made = Started([*words, str(rate), str(phase_s), str(seed)], log)
    try:
        if not made.wait_for("ready", 120):
            raise SystemExit(f"the load did not begin; see {made.log}")
        yield made
    finally:
        made.end()


def counted(made: Started) -> dict[str, int]:
    """What became of the messages, once the load has ended."""
    made.end()
    found: dict[str, int] = json.loads(made.text.splitlines()[-1])
    found.pop("slowest", None)
    return found


def slowest(made: Started) -> list[tuple[float, float]]:
    """The slowest thousandth of publishes of a load that has ended (`load.py`)."""
    return [(at_s, took_ms) for at_s, took_ms in json.loads(made.text.splitlines()[-1])["slowest"]]
