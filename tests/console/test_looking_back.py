"""Curves from before the console was started, and a large cluster a page at a time."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from counterpoise.pipeline.tables.reports import land
from tests.console.conftest import StartConsole, opened
from tests.console.reports import report
from tests.console.staged import Staged, staged
from tests.pipeline.fake_cluster import bundle_name
from tests.pipeline.histories import writer_of

pytestmark = pytest.mark.browser
BUNDLE = bundle_name(1)
HOUR_MS = 3600 * 1000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Staged]:
    with staged(brokers=25) as made:
        made.carry(made.brokers[0], BUNDLE, 5_000.0)
        yield made


@pytest.fixture(scope="module")
def page(
    cluster: Staged, context: BrowserContext, start_console: StartConsole, tmp_path_factory: object
) -> Iterator[Page]:
    history = tmp_path_factory.mktemp("history")  # type: ignore[attr-defined]
    writer, now_ms = writer_of(history), int(time.time() * 1000)
    for hours, broker, load in ((20, "gone:1", 70_000.0), (3, cluster.names[0], 40_000.0)):
        land(writer, report(now_ms - hours * HOUR_MS, broker, {BUNDLE: load}))
    url = start_console("--admin-url", cluster.admin_url, "--history", str(Path(history)))
    with opened(context, url) as made:
        yield made


def test_a_bundles_curve_reaches_back_into_the_history(page: Page, cluster: Staged) -> None:
    page.get_by_role("tab", name="Bundles").click()
    page.get_by_role("region", name="Bundles").get_by_role("button", name=BUNDLE).click()
    panel = page.get_by_role("region", name="Chosen")
    expect(panel.get_by_role("img", name="Load over time: 5.0 kB/s to 5.0 kB/s")).to_be_visible()
    for span, most in (("6 hours", "40.0"), ("24 hours", "70.0")):
        panel.get_by_label("How far back").click()
        page.get_by_role("option", name=f"recorded: {span}").click()
        curve = panel.get_by_role("img", name=f"Load over time: 5.0 kB/s to {most} kB/s")
        expect(curve).to_be_visible()
    expect(panel.get_by_text(f"moved from gone:1 to {cluster.names[0]}")).to_be_visible()


def test_many_brokers_are_shown_a_page_at_a_time(page: Page, cluster: Staged) -> None:
    page.get_by_role("tab", name="Brokers").click()
    brokers = page.get_by_role("region", name="Brokers")
    expect(brokers.get_by_text("25 brokers, page 1 of 2")).to_be_visible()
    expect(brokers.locator("button.pick:visible")).to_have_count(20)
    brokers.get_by_role("button", name="Next").click()
    expect(brokers.locator("button.pick:visible")).to_have_count(5)
    brokers.get_by_label("Find by address").fill(cluster.names[7])
    expect(brokers.locator("button.pick:visible")).to_have_text([cluster.names[7]])
    expect(brokers.get_by_text("1 broker", exact=True)).to_be_visible()
