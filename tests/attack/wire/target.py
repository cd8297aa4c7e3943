"""The broker under attack: a process of its own, its log and its memory."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.attack.wire.bystander import look_up
from tests.broker.connection.raw_client import RawClient
from tests.wire import frames
from tests.wire.frames import Type

ROOT = Path(__file__).resolve().parents[3]


@dataclass(slots=True)
class Target:
    """A running broker."""

    process: subprocess.Popen[str]
    log_file: Path
    service_url: str
    admin_url: str
    served: int = field(default=0)

    @property
    def log(self) -> str:
        """All it has written to standard error."""
        return self.log_file.read_text(errors="replace")

    @property
    def memory_mb(self) -> float:
        """The most it ever had resident; 0 when it is gone."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
        return 0.0

    def why_not_serving(self) -> str:
        """Publish and consume as a new client; empty if that works."""
        self.served += 1
        topic = f"persistent://public/default/afterwards-{self.served}"
        try:
            with RawClient(self.service_url) as client:
                client.connect()
                look_up(client, topic)
                client.produce(topic)
                client.subscribe(topic)
                client.command("flow", consumer_id=0, message_permits=10)
                client.send(frames.send(0, 0))
                kinds = {client.receive().type for _ in range(2)}
        except (OSError, AssertionError) as error:
            return f"{type(error).__name__}: {error}"
        wanted = {Type.SEND_RECEIPT, Type.MESSAGE}
        return "" if kinds == wanted else f"{kinds} instead of {wanted}"


def environment() -> dict[str, str]:
    """What the processes of an attack run with: this tree's code."""
    path = os.pathsep.join((str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")))
    return {**os.environ, "PYTHONPATH": path}


@contextlib.contextmanager
def broker(folder: Path, fault: str = "") -> Iterator[Target]:
    """Run a broker with its messages in ``folder``; ``fault`` names one of `planted`."""
    program = ["tests.attack.wire.planted", fault] if fault else ["counterpoise"]
    log_file = folder / "broker.log"
    with log_file.open("w") as log:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                *program,
                "broker",
                "--data",
                str(folder / "data"),
                "--set",
                "metadataStoreUrl=memory:",
                "--log-level",
                "error",
                "--set",
                "brokerServicePort=0",
                "--set",
                "webServicePort=0",
            ],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment(),
            cwd=ROOT,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("ready "):
            raise RuntimeError(f"the broker did not start: {log_file.read_text()}")
        urls = json.loads(line.removeprefix("ready "))
        yield Target(process, log_file, urls["service_url"], urls["admin_url"])
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
