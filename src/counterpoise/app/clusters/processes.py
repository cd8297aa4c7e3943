"""Child processes that report when they are ready and never outlive their parent."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from counterpoise.app.errors import UserError

WRAPPER = Path(__file__).with_name("die_with_parent.py")
READY = "ready"
"""A child prints a line that begins with this word once it serves."""
KEPT_LINES = 200
"""Lines of output kept in memory for the error when a child fails to start."""


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A program to start, and how to recognise that it is ready."""

    name: str
    """The program's name in messages, for example ``broker-1``."""
    argv: Sequence[str]
    is_ready: Callable[[str], bool]
    """Called with each line of output; the first for which it returns True is the ready line."""
    log: Path
    """The file to which its output (standard output and error) is appended."""
    environment: Mapping[str, str] | None = None
    """Environment variables to add to those of this process."""
    ready_within_s: float = 120.0
    stop_within_s: float = 10.0
    """How long it may take to end after SIGTERM before SIGKILL follows."""
    on_ended: Callable[[int], None] | None = None
    """Called with the exit status if the program was ready and then ends by itself; called on a
    thread of its own."""


class ChildFailedError(UserError):
    """A child ended, or took too long, before it was ready."""


class Child:
    """A running child process, in a process group of its own.

    A Ctrl-C in the terminal reaches only the parent, which then stops its children in order. On
    Linux the child is killed when its parent ends, even by ``kill -9`` (see
    :mod:`.die_with_parent`).

    Start it on a thread that lives as long as the child should: to the kernel, the parent is the
    thread that forked.
    """

    def __init__(self, spec: ChildSpec) -> None:
        """Start the process; raises OSError if that, opening its log or reading its output is not
        possible.
        """
        self.spec = spec
        self.ready_line = ""
        self._ready = threading.Event()
        self._end_requested = False
        self._tail: deque[str] = deque(maxlen=KEPT_LINES)
        spec.log.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as undo:
            log = undo.enter_context(spec.log.open("ab", buffering=0))
            self._process = subprocess.Popen(  # noqa: S603  our caller names the program
                [sys.executable, "-I", "-S", str(WRAPPER), str(os.getpid()), *spec.argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(spec.environment or {})},
                process_group=0,
                text=True,
                errors="replace",
            )
            undo.callback(self._process.wait)
            undo.callback(os.killpg, self.pid, signal.SIGKILL)
            if self._process.stdout is None:
                raise AssertionError("stdout was asked to be a pipe")
            self._reader = threading.Thread(
                target=self._read,
                args=(undo.enter_context(self._process.stdout), log),
                name=f"{spec.name}-output",
                daemon=True,
            )
            try:
                self._reader.start()
            except RuntimeError as error:
                raise OSError(errno.EAGAIN, f"{spec.name} cannot be read: {error}") from None
            undo.pop_all()

    @classmethod
    def start(cls, spec: ChildSpec) -> "Child":
        """Start a child process and wait until it is ready; raises :class:`ChildFailedError`."""
        child = cls(spec)
        try:
            child.wait_ready()
        except BaseException:
            child.stop()
            raise
        return child

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its process group."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """The exit status (negative: the signal that ended it); None while it runs."""
        return self._process.poll()

    @property
    def is_alive(self) -> bool:
        """Whether the process is still running."""
        return self.exit_status is None

    def wait_ready(self) -> str:
        """Wait for the line that says it is ready, and return it. Raises `ChildFailedError`."""
        if not self._ready.wait(self.spec.ready_within_s):
            raise ChildFailedError(
                f"{self.spec.name} was not ready after {self.spec.ready_within_s:g} s: "
                f"{self._last_line} (its output is in {self.spec.log})."
            )
        if not self.ready_line:
            status = self._process.wait()
            raise ChildFailedError(
                f"{self.spec.name} ended with status {status} before it was ready: "
                f"{self._last_line} (its output is in {self.spec.log})."
            )
        return self.ready_line

    @property
    def _last_line(self) -> str:
        tail = list(self._tail)
        return next((line.strip() for line in reversed(tail) if line.strip()), "no output")

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait until the process ends and return its exit status; raises TimeoutError."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.spec.name} still runs after {timeout_s} s") from None

    def terminate(self) -> None:
        """Send SIGTERM to the process without waiting.

        Its process group gets no signal: the child itself ends what it started, such as Spark's
        JVM, in order.
        """
        self._end_requested = True
        if self.is_alive:
            self._process.terminate()

    def kill(self) -> None:
        """Kill the process at once with its whole process group."""
        self._end_requested = True
        self._signal_group(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """End the process and return its exit status: by SIGTERM, and by SIGKILL if it takes
        longer than ``stop_within_s``.
        """
        self._end_requested = True
        if self.is_alive:
            self.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(self.spec.stop_within_s)
        self._signal_group(signal.SIGKILL)
        self._reader.join()
        return self._process.wait()

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _signal_group(self, number: signal.Signals) -> None:
        # Once the group has ended, the system may give its id to a stranger's.
        if self._reader.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def _read(self, output: IO[str], log: IO[bytes]) -> None:
        # Read on after the ready line: a full pipe would block the child.
        with output, log:
            for line in output:
                with contextlib.suppress(OSError):  # a full disk must not end the child
                    log.write(line.encode())
                self._tail.append(line)
                if not self._ready.is_set() and self.spec.is_ready(line):
                    self.ready_line = line.rstrip("\n")
                    self._ready.set()
        self._ready.set()
        status = self._process.wait()
        # Processes that it started may still be in its group.
        self._signal_group(signal.SIGKILL)
        if self.ready_line and self.spec.on_ended is not None and not self._end_requested:
            self.spec.on_ended(status)
