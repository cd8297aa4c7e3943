"""Follows a page as a person would: in a directory of its own, with ports that are free."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import pulsar

from counterpoise import Cluster
from counterpoise.app.clusters.zookeeper import ZooKeeper
from tests.docs.page import Command, File, Page, matches
from tests.ports import free_ports

SRC = Path(__file__).resolve().parents[2] / "src"
LIMIT_S = 180
NAMES = (
    ("zk-1:2181,zk-2:2181,zk-3:2181", "127.0.0.1:2181"),
    (re.compile(r"\bbroker-\d\.example\.com\b"), "localhost"),
    (re.compile(r"\bbroker-2:8080\b"), "127.0.0.1:8081"),
)
"""Hosts of an operator's network."""
PORTS = {"6650": 0, "8080": 10, "8081": 11, "2181": 20}
"""Where each is here, counted from the first that is free."""


class Follower:
    """One page's directory, ports and running commands."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory = directory
        self.admin_url = ""
        self._stack = stack
        self.left_running = ExitStack()
        """What the page's own commands left running."""
        self._first_port = free_ports(30)
        self._secure_url = ""
        self.environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(SRC),
            "HOME": str(directory),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def here(self, text: str) -> str:
        """The same with this machine's ports and directories."""
        for name, ours in NAMES:
            text = re.sub(name, ours, text)
        text = text.replace("/srv/counterpoise", str(self.directory))
        text = text.replace("/etc/counterpoise", str(self.directory))
        text = text.replace("https://broker-1:8443", self._secure_url)
        return re.sub(
            rf"\b(?:{'|'.join(PORTS)})\b", lambda port: str(self._first_port + PORTS[port[0]]), text
        )

    def write(self, file: File) -> None:
        """Keep a file that the page shows."""
        (self.directory / file.name).write_text(self.here(file.text), "utf-8")

    def run(self, command: Command) -> None:
        """Type a command; fails unless it ends as the page says, with what the page says."""
        text = self.here(command.text)
        if command.alone:
            self.left_running.close()
        if command.until is not None:
            self._leave_running(text, command.until, self.left_running)
            return
        with subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", text],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                out, errors = process.communicate(timeout=LIMIT_S)
            finally:
                _end(process)
        said = f"$ {text}\n{out}\n{errors}"
        assert process.returncode in command.statuses, said
        assert "Traceback" not in errors, said
        assert matches(self.here(command.answer), out), f"{said}\nthe page says:\n{command.answer}"

    def _leave_running(self, text: str, until: str, stack: ExitStack) -> None:
        log = self.directory / f"background-{len(list(self.directory.glob('background-*')))}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {text}"],
                cwd=self.directory,
                env=self.environment | {"PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=out,
                text=True,
                start_new_session=True,
            )
        assert process.stdout is not None
        seen = []
        guard = threading.Timer(LIMIT_S, _end, [process])
        guard.start()
        for line in process.stdout:
            seen.append(line)
            if until in line:
                break
        else:
            _end(process)
            process.stdout.close()
            raise AssertionError(f"$ {text}\n{''.join(seen)}\n{log.read_text()}")
        guard.cancel()
        # Whatever else it prints is read, so that it never waits for a reader.
        reader = threading.Thread(target=_read_away, args=[process.stdout])
        reader.start()
        stack.callback(reader.join)
        stack.callback(_end, process)

    def provide(self, need: str) -> None:
        """What a page takes for granted."""
        if need == "zookeeper":
            self._stack.enter_context(
                ZooKeeper.start(self.directory / "zookeeper", int(self.here("2181")))
            )
            return
        if need == "a cluster with tokens":
            self._secure()
            return
        assert need in ("a cluster", "a loaded cluster"), need
        up = "counterpoise up --brokers 3 --no-balance --port 6650 --web-port 8080"
        up += " --set loadBalancerSheddingEnabled=false"
        self._leave_running(self.here(up), "Ctrl-C stops", self._stack)
        if need == "a loaded cluster":
            self._stack.enter_context(_load(self.here("pulsar://localhost:6650")))

    def _secure(self) -> None:
        """A cluster with authentication, its authority, and an administrator's token."""
        cluster = self._stack.enter_context(Cluster(brokers=1, tls=True, tokens=True))
        self._secure_url = cluster.admin_url_tls
        shutil.copy(cluster.security.trust_certs, self.directory / "ca.pem")
        (self.directory / "token").write_text(cluster.security.token("admin"), "utf-8")


@contextmanager
def _load(url: str) -> Iterator[None]:
    """A few hundred messages a second to a dozen topics, until the end."""
    done, begun = threading.Event(), threading.Event()

    def publish() -> None:
        client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        producers = [
            client.create_producer(f"persistent://public/default/load-{n}") for n in range(12)
        ]
        body = b"x" * 1000
        while not done.wait(0.05):
            for producer in producers:
                producer.send_async(body, lambda *_: begun.set())
        client.close()

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        assert begun.wait(60)
        yield
    finally:
        done.set()
        thread.join()


def _read_away(stream: IO[str]) -> None:
    with stream:
        for _ in stream:
            pass


def _end(process: subprocess.Popen[str]) -> None:
    """Ask a command to stop, and then end what it left behind."""
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def follow(page: Page, directory: Path) -> None:
    """Do what a page says, from its first line to its last."""
    with ExitStack() as stack:
        follower = Follower(directory, stack)
        for need in page.needs:
            follower.provide(need)
        # It ends first: a broker whose ZooKeeper has gone takes its time.
        stack.enter_context(follower.left_running)
        for step in page.steps:
            if isinstance(step, File):
                follower.write(step)
            else:
                follower.run(step)
