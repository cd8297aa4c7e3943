"""Runs the console as its own process, so that it does not slow down brokers."""

import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from counterpoise.app.clusters.processes import Child, ChildSpec
from counterpoise.app.errors import UserError


class ConsoleProcess:
    """A console as a child process, which runs until it is stopped or this process ends."""

    def __init__(
        self,
        admin_urls: Iterable[str],
        log: Path | None = None,
        *,
        port: int = 0,
        more: Sequence[str] = (),
    ) -> None:
        """Start the console and wait until it serves; raises `UserError` if it does not.

        ``log``: the file for its output; None: a temporary file. ``more``: further options of
        ``counterpoise console``.
        """
        if importlib.util.find_spec("nicegui") is None:
            raise UserError("the console needs more packages: pip install 'counterpoise[console]'")
        argv = [sys.executable, "-m", "counterpoise.app.main", "console", "--json"]
        argv += ["--admin-url", ",".join(admin_urls), "--port", str(port)]
        self._child = Child.start(
            ChildSpec(
                name="console",
                argv=[*argv, *more],
                is_ready=lambda line: line.startswith('{"console_url"'),
                log=log or Path(tempfile.gettempdir()) / f"counterpoise-console-{os.getpid()}.log",
                stop_within_s=5.0,
            )
        )
        self.url: str = json.loads(self._child.ready_line)["console_url"]
        """The URL of the console's page."""

    def stop(self) -> None:
        """Stop the console's process; ignored if it has ended."""
        self._child.stop()
