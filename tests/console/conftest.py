"""A console process, and a browser to look at it with."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from counterpoise.app.clusters.processes import Child, ChildSpec

SHOWN_WITHIN_MS = 60_000
"""What is awaited on a page is there after a tenth of a second, unless the machine is busy."""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
StartConsole = Callable[..., str]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium; without one the test fails with the package to install."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here: install the package 'chromium' to run these")
    with sync_playwright() as playwright:
        # Without a sandbox: root in a container has none, and only our own page is shown.
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        expect.set_options(timeout=SHOWN_WITHIN_MS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """What the pages of a module share: what was loaded once is not loaded again."""
    with browser.new_context() as made:
        made.set_default_timeout(SHOWN_WITHIN_MS)
        yield made


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


@contextmanager
def opened(
    context: BrowserContext, url: str, *, theme: str = "light", width: int = 1440
) -> Iterator[Page]:
    """A page of the console, whose errors are errors of the test; nothing glides in it."""
    scheme: Any = theme
    size: Any = {"width": width, "height": 900}
    with closing(context.new_page()) as page:
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(url)
        expect(page.get_by_text("live, seen")).to_be_visible()
        yield page
        assert not errors


MAP_IS_DRAWN = """async () => {
    const element = document.querySelector('.map .chart');
    const chart = element && window.getElement?.(parseInt(element.id.slice(1)))?.chart;
    if (!chart?.getOption()?.series?.[0]?.data?.length) return false;
    for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
    return true;
}"""


def map_is_drawn(page: Page) -> None:
    """Wait until the map shows the cluster: its words, and its empty canvas, are there before."""
    page.wait_for_function(MAP_IS_DRAWN)


def console_spec(directory: Path, *options: str) -> ChildSpec:
    argv = [sys.executable, "-m", "counterpoise.app.main", "console", "--json", "--every", "0.2"]
    return ChildSpec(
        name="console",
        argv=[*argv, *options],
        is_ready=lambda line: line.startswith("{"),
        log=directory / "console.log",
    )
