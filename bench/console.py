"""The console at a hundred brokers and ten thousand bundles: what an update costs, and stutters.

A cluster that is only its admin API reports new loads at every look; a headless Chromium has the
page open. The server's CPU is the console process's own, by update; the browser's is measured by
PerformanceObserver (tasks longer than 50 ms) and by the gaps between animation frames.
"""

import asyncio
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import psutil
from playwright.sync_api import Page, sync_playwright
from tests.pipeline.fake_cluster import FakeBroker, FakeCluster, bundle_name

from bench.figures import Figure
from counterpoise.app.clusters.loop_thread import LoopThread
from counterpoise.app.clusters.processes import Child, ChildSpec

EVERY_S, QUICK_S = 2.0, 0.4
"""Between two looks."""
BAR_MS = 100.0
OBSERVED = """
window.tasks = [];
new PerformanceObserver(list => list.getEntries().forEach(e => window.tasks.push(e.duration)))
    .observe({type: 'longtask', buffered: true});
window.gaps = []; let last = performance.now();
const tick = now => { window.gaps.push(now - last); last = now; requestAnimationFrame(tick); };
requestAnimationFrame(tick);
"""


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Load the page, then let it live for a while."""
    brokers, bundles = (10, 1_000) if quick else (100, 10_000)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("there is no Chromium here: install the Debian package chromium")
    every_s = QUICK_S if quick else EVERY_S
    with _cluster(brokers, bundles, every_s) as url, _console(url, every_s) as (address, process):
        time.sleep(2 * every_s)
        idle = _cpu(process, 5 * every_s) / 5
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--enable-precise-memory-info"]
            )
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.add_init_script(OBSERVED)
            page.goto(address)
            page.get_by_text("live, seen").wait_for()
            page.wait_for_timeout(2_500 * every_s)
            loading, _ = _watched(page)
            updates = 3 if quick else 8
            browser.start_tracing(categories=["toplevel", "devtools.timeline", "__metadata"])
            busy = _cpu(process, updates * every_s, page) / updates
            tasks = _tasks(browser.stop_tracing())
            living, gaps = _watched(page)
            page.screenshot(path=out / "console.png")
            browser.close()
    (out / "console.json").write_text(
        json.dumps({"loading": loading, "living": living, "cpu": tasks})
    )
    size = f"{brokers} brokers, {bundles:,} bundles"
    return [
        Figure("console: server's CPU for a look without a page", idle * 1000, "ms", note=size),
        Figure("console: server's CPU for a look with one page open", busy * 1000, "ms", note=size),
        Figure(
            "console: the browser's CPU for an update",
            sum(tasks) / updates,
            "ms",
            note=f"of its page's thread; {size}",
        ),
        Figure(
            "console: longest task of the browser in an update",
            max(tasks, default=0.0),
            "ms",
            bar=f"<= {BAR_MS:g} ms of CPU",
            holds=max(tasks, default=0.0) <= BAR_MS,
            note=f"{max(living, default=0.0):.0f} ms by the clock; "
            f"{len(living)} above 50 ms in {updates} updates",
        ),
        Figure("console: median gap between frames", statistics.median(gaps), "ms"),
        Figure("console: longest task while the page loads", max(loading, default=0.0), "ms"),
    ]


def _tasks(trace: bytes) -> list[float]:
    """The CPU of each task of the page's thread, ms; other processes of the machine add nothing."""
    events = orjson.loads(trace)["traceEvents"]
    mains = {
        (each["pid"], each["tid"])
        for each in events
        if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
    }
    return [
        each["tdur"] / 1000
        for each in events
        if each["name"].endswith("RunTask")
        and "tdur" in each
        and (each["pid"], each["tid"]) in mains
    ]


def _watched(page: Page) -> tuple[list[float], list[float]]:
    """Long tasks and gaps between frames since they were asked for last, ms."""
    found: list[list[float]] = page.evaluate(
        "() => { const seen = [window.tasks, window.gaps];"
        "window.tasks = []; window.gaps = []; return seen; }"
    )
    return found[0], found[1]


def _cpu(process: psutil.Process, for_s: float, page: Page | None = None) -> float:
    before = sum(process.cpu_times()[:2])
    if page is None:
        time.sleep(for_s)
    else:
        page.wait_for_timeout(for_s * 1000)
    return sum(process.cpu_times()[:2]) - before


@contextmanager
def _cluster(brokers: int, bundles: int, every_s: float) -> Iterator[str]:
    thread = LoopThread("reporting cluster")
    made, random_ = FakeCluster(), random.Random(7)

    async def start() -> None:
        for _ in range(brokers):
            await made.add_broker()
        for number in range(bundles):
            made.carry(made.brokers[number % brokers], bundle_name(number), 1.0)
        # A report that is made for each look would cost the machine more than the console.
        for broker in made.brokers:
            broker.answers[REPORT] = (200, _report(broker))

    async def live() -> None:
        while True:
            for broker in made.brokers:
                report: dict[str, Any] = orjson.loads(broker.answers[REPORT][1])
                for stats in report["lastStats"].values():
                    load = 1_000 * random_.paretovariate(1.3)
                    stats |= {"msgThroughputIn": load, "msgRateIn": load / 100}
                report["lastUpdate"] = int(time.time() * 1000)
                broker.answers[REPORT] = (200, orjson.dumps(report))
                await asyncio.sleep(every_s / brokers)

    thread.run(start(), 60)

    async def begin() -> asyncio.Task[None]:
        return asyncio.create_task(live())

    living = thread.run(begin(), 10)
    try:
        yield ",".join(f"http://{each}" for each in made.names[:2])
    finally:

        async def end() -> None:
            living.cancel()
            await made.__aexit__(None, None, None)

        thread.run(end(), 30)
        thread.stop()


REPORT = "/admin/v2/broker-stats/load-report"


def _report(broker: FakeBroker) -> bytes:
    return orjson.dumps(broker.report().to_json())


@contextmanager
def _console(url: str, every_s: float) -> Iterator[tuple[str, psutil.Process]]:
    with tempfile.TemporaryDirectory() as directory:
        argv = [sys.executable, "-m", "counterpoise.app.main", "console", "--json"]
        argv += ["--every", str(every_s), "--admin-url", url]
        child = Child.start(
            ChildSpec(
                name="console",
                argv=argv,
                is_ready=lambda line: line.startswith("{"),
                log=Path(directory) / "console.log",
            )
        )
        try:
            yield json.loads(child.ready_line)["console_url"], psutil.Process(child.pid)
        finally:
            child.stop()
