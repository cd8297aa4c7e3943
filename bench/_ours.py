"""Ours as processes: `counterpoise up`, for benchmarks that stand beside real Pulsar."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pulsar

from bench._client import connect
from counterpoise.app.clusters import die_with_parent


@dataclass(frozen=True, slots=True)
class Ours:
    service_url: str
    admin_url: str
    start_seconds: float
    pid: int


@contextlib.contextmanager
def up(folder: Path, brokers: int, settings: Mapping[str, str] | None = None) -> Iterator[Ours]:
    """`counterpoise up` with file storage (fsync before every receipt) and no balancer.

    ``settings``: under their names in broker.conf.
    """
    started = time.perf_counter()
    process = subprocess.Popen(
        [
            sys.executable,
            die_with_parent.__file__,
            str(os.getpid()),
            sys.executable,
            "-m",
            "counterpoise",
            "up",
            "--brokers",
            str(brokers),
            "--data",
            str(folder),
            "--no-balance",
            "--metadata",
            "zk:",
            *(f"--set={name}={value}" for name, value in (settings or {}).items()),
        ],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        urls: dict[str, str] = {}
        assert process.stdout is not None
        for line in process.stdout:
            for word in line.split():
                for scheme, key in (("pulsar://", "service"), ("http://", "admin")):
                    if word.startswith(scheme):
                        urls.setdefault(key, word.rstrip("/,.'\")"))
            if len(urls) == 2:
                break
        else:
            raise SystemExit(f"counterpoise up ended with {process.wait()} before it was ready")
        yield Ours(urls["service"], urls["admin"], time.perf_counter() - started, process.pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def first_acknowledged(url: str) -> float:
    """Seconds until a fresh client's first message is acknowledged."""
    started = time.perf_counter()
    client: pulsar.Client = connect(url)
    client.create_producer("persistent://public/default/first").send(b"x")
    seconds = time.perf_counter() - started
    client.close()
    return seconds
