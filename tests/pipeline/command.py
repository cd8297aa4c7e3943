"""`counterpoise` as a process of its own, whose lines can be awaited."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Command:
    """One run of the command line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said: list[str] = []

    @classmethod
    async def start(
        cls,
        words: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str] | None = None,
        module: str = "counterpoise.app.main",
        group: bool = False,
    ) -> "Command":
        """Run it in a directory of its own, and where asked for in its own process group."""
        await asyncio.to_thread(cwd.mkdir, parents=True, exist_ok=True)
        path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            *words,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=group,
        )
        return cls(process)

    @property
    def text(self) -> str:
        """All that it said."""
        return "\n".join(self.said)

    async def until(self, enough: Callable[[str], bool]) -> str:
        """Read on to a line; raises `AssertionError` when it ends before that."""
        if self.process.stdout is None:
            raise AssertionError("its output was asked to be a pipe")
        while line := await self.process.stdout.readline():
            self.said.append(line.decode(errors="replace").rstrip("\n"))
            if enough(self.said[-1]):
                return self.said[-1]
        raise AssertionError(f"it ended with {await self.process.wait()}:\n{self.text}")

    async def end(self) -> int:
        """Read to the end, and give the exit status."""
        if self.process.stdout is not None:
            rest = await self.process.stdout.read()
            self.said += rest.decode(errors="replace").splitlines()
        return await self.process.wait()

    async def kill(self) -> None:
        """End it if it still runs, and wait until it and its pipes are gone."""
        if self.process.returncode is None:
            self.process.kill()
        await self.end()
