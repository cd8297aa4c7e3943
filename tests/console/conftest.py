"""A console process, and a browser to look at it with."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from counterpoise.app.processes import Child, ChildSpec

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
StartConsole = Callable[..., str]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium; whoever has none is told."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here: install the package 'chromium' to run these")
    with sync_playwright() as playwright:
        # Without a sandbox: root in a container has none, and only our own page is shown.
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def start_console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartConsole]:
    """Starts `counterpoise console` with options, as often as is wanted; gives its address."""
    started: list[Child] = []

    def start(*options: str) -> str:
        child = Child.start(console_spec(tmp_path_factory.mktemp("console"), *options))
        started.append(child)
        url: str = json.loads(child.ready_line)["console_url"]
        return url

    yield start
    for child in started:
        child.stop()


def console_spec(directory: Path, *options: str) -> ChildSpec:
    argv = [sys.executable, "-m", "counterpoise.app.main", "console", "--json", "--every", "0.2"]
    return ChildSpec(
        name="console",
        argv=[*argv, *options],
        is_ready=lambda line: line.startswith("{"),
        log=directory / "console.log",
    )
