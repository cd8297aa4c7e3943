"""Starts ``counterpoise up`` in whatever way it was installed, and sends it one message."""

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pulsar

_ENDS_S = 30


class FirstMessage(NamedTuple):
    """Seconds from the start of the process."""

    served_s: float
    """Until it said that it serves."""
    acknowledged_s: float
    """Until the official client had the receipt of its first message."""

    def __str__(self) -> str:
        return f"serves after {self.served_s:.2f} s, first receipt after {self.acknowledged_s:.2f}"


def first_message(command: Sequence[str], environment: Mapping[str, str]) -> FirstMessage:
    """Run ``command`` with ``up --json``, send a message, and end it by SIGTERM.

    Raises RuntimeError if it ends before it serves, or ends with an error.
    """
    began = time.monotonic()
    with subprocess.Popen(
        [*command, "up", "--json"], env=dict(environment), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"{' '.join(command)} up ended before it served")
            served_s = time.monotonic() - began
            logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
            client = pulsar.Client(json.loads(line)["service_url"], logger=logger)
            client.create_producer("greetings").send(b"hello")
            acknowledged_s = time.monotonic() - began
            client.close()
        finally:
            process.terminate()
        if process.wait(_ENDS_S):
            raise RuntimeError(f"{' '.join(command)} up ended with status {process.returncode}")
    return FirstMessage(served_s, acknowledged_s)
