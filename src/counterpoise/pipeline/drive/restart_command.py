"""Restarts a broker by the operator's command, or by asking the operator."""

import asyncio
import contextlib
import os
import shlex
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from counterpoise.names.callbacks import SentenceSink
from counterpoise.pipeline.collect.words import line


class RestartFailedError(RuntimeError):
    """The broker was not restarted; the message says why."""


class Restarter(Protocol):
    """A way to restart a broker: by a program, or by asking the operator."""

    async def restart(self, broker: str) -> None:
        """Restart a broker; raises `RestartFailedError`. It may return before the broker runs
        again.
        """
        ...


@dataclass(frozen=True, slots=True)
class RestartCommand:
    """Restarts a broker by running the operator's program, without a shell.

    If the rolling restart is interrupted, the program may be run twice for one broker. ``{broker}``
    and ``{host}`` in its arguments are replaced, and also passed in the environment as
    ``COUNTERPOISE_BROKER`` and ``COUNTERPOISE_HOST``.
    """

    arguments: Sequence[str]
    within_s: float
    """Seconds that the program may take; then it is killed with all its children."""

    @staticmethod
    def parse(text: str, within_s: float) -> "RestartCommand":
        """Split a command line into arguments; raises `ValueError` if it is invalid."""
        arguments = shlex.split(text)
        if not arguments:
            raise ValueError("the command is empty")
        return RestartCommand(tuple(arguments), within_s)

    async def restart(self, broker: str) -> None:
        """Run the restart command for a broker; raises `RestartFailedError`."""
        host = broker.rpartition(":")[0]
        words = [
            each.replace("{broker}", broker).replace("{host}", host) for each in self.arguments
        ]
        named = {"COUNTERPOISE_BROKER": broker, "COUNTERPOISE_HOST": host}
        # A file, not a pipe: a daemon that the command leaves behind would keep a pipe open.
        with tempfile.TemporaryFile() as errors:
            try:
                process = await asyncio.create_subprocess_exec(
                    *words,
                    env=os.environ | named,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=errors,
                    start_new_session=True,
                )
            except OSError as error:
                raise RestartFailedError(f"{words[0]} cannot be run: {error.strerror}") from None
            await self._end(process, broker)
            if process.returncode:
                errors.seek(0)
                lines = errors.read().decode(errors="replace").strip().splitlines()
                raise RestartFailedError(
                    f"the command for {broker} failed with status {process.returncode}: "
                    f"{line(lines[-1]) if lines else 'no message'}"
                )

    async def _end(self, process: asyncio.subprocess.Process, broker: str) -> None:
        """Wait until the command ends; after the time-out, end it with all its children."""
        try:
            async with asyncio.timeout(self.within_s):
                await process.wait()
        except TimeoutError:
            raise RestartFailedError(
                f"the command for {broker} had not ended after {self.within_s:g} s, and was ended"
            ) from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


@dataclass(frozen=True, slots=True)
class RestartByHand:
    """Asks the operator to restart brokers."""

    log: SentenceSink

    async def restart(self, broker: str) -> None:
        """Ask the operator, in the log, to restart a broker; does not wait for it."""
        self.log(f"{broker} is empty: restart it now; the rest waits until it is back")
