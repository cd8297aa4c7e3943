"""The map in a browser: a look is drawn once, and by what changed alone."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.console.conftest import StartConsole, map_is_drawn, opened
from tests.console.staged import Staged, staged
from tests.pipeline.fake_cluster import bundle_name

pytestmark = [pytest.mark.browser]

NOTED = """() => {
    window.drawn = [];
    const chart = getElement(parseInt(document.querySelector('.map .chart').id.slice(1))).chart;
    const draw = chart.setOption.bind(chart);
    chart.setOption = (...given) => { window.drawn.push(given); draw(...given); };
}"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Staged]:
    with staged(2) as made:
        for number, broker in enumerate(made.brokers):
            made.carry(broker, bundle_name(number), 1_000.0)
        yield made


@pytest.fixture
def page(context: BrowserContext, start_console: StartConsole, cluster: Staged) -> Iterator[Page]:
    url = start_console("--admin-url", f"http://{cluster.names[0]}")
    with opened(context, url) as page:
        yield page


def load(cluster: Staged, bytes_per_s: float) -> None:
    cluster.carry(cluster.brokers[0], bundle_name(0), bytes_per_s)


def test_what_a_look_changed_is_drawn_once(page: Page, cluster: Staged) -> None:
    """A map of hundreds of tiles that is drawn twice keeps its browser busy twice as long."""
    expect(page.get_by_role("img", name="The most loaded")).to_be_visible()
    map_is_drawn(page)
    page.evaluate(NOTED)
    for looks in (1, 2, 3):
        load(cluster, 5_000.0 * looks)
        page.wait_for_function("looks => window.drawn.length >= looks", arg=looks)
    drawn = page.evaluate("window.drawn")
    assert all(list(options) == ["series"] for options, *_ in drawn), "only what changed"
    assert all(one != other for one, other in pairwise(drawn))
