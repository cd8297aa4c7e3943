"""The console in a real browser, about a real cluster."""

from collections.abc import Iterator
from typing import Literal

import pulsar
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from counterpoise import Cluster
from tests.console.conftest import StartConsole, map_is_drawn, opened
from tests.waiting import found_soon

pytestmark = [pytest.mark.browser, pytest.mark.client]

TOPICS = [f"public/default/orders-{i}" for i in range(6)]
TABS = ("Brokers", "Bundles", "Decisions", "Moves", "Throttling", "Backtests")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {"loadBalancerReportUpdateMinIntervalMillis": 100, "statsUpdateFrequencyInSecs": 1}
    with Cluster(brokers=2, config=config) as made:
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        client = pulsar.Client(made.service_url, logger=quiet)
        for topic in TOPICS:
            client.create_producer(topic).send(b"hello")
        yield made
        client.close()


@pytest.fixture(scope="module")
def console(cluster: Cluster, start_console: StartConsole) -> str:
    return start_console("--admin-url", cluster.admin_url)


@pytest.fixture
def page(context: BrowserContext, console: str) -> Iterator[Page]:
    with opened(context, console) as page:
        yield page


def test_it_shows_the_brokers_and_goes_on_without_reloading(page: Page, cluster: Cluster) -> None:
    brokers = page.get_by_role("region", name="Brokers")
    for broker in cluster.brokers:
        expect(brokers.get_by_role("button", name=broker.id)).to_be_visible()
    added = cluster.add_broker()
    expect(brokers.get_by_role("button", name=added.id)).to_be_visible()
    cluster.stop_broker(added)
    expect(brokers.get_by_role("button", name=added.id)).to_have_count(0)


def test_a_cluster_serves_a_console_of_its_own(context: BrowserContext, cluster: Cluster) -> None:
    with opened(context, cluster.console_url) as page:
        for broker in cluster.brokers:
            if broker.alive:
                expect(page.get_by_role("button", name=broker.id)).to_be_visible()


def choose_bundle(page: Page, bundle: str) -> Locator:
    """Choose a bundle in the table; gives the panel about it."""
    page.get_by_role("tab", name="Bundles").click()
    page.get_by_role("region", name="Bundles").get_by_role("button", name=bundle).click()
    panel = page.get_by_role("region", name="Chosen")
    expect(panel.get_by_role("heading", name=bundle)).to_be_visible()
    return panel


def test_a_bundle_is_transferred_by_clicking_and_the_picture_changes(
    page: Page, cluster: Cluster
) -> None:
    topic = TOPICS[0]
    bundle, source = cluster.bundle(topic), cluster.owner(topic)
    assert source is not None
    target = next(each for each in cluster.brokers if each.alive and each is not source)
    panel = choose_bundle(page, bundle)
    expect(panel.get_by_text(f"owner {source.id}")).to_be_visible()
    map_is_drawn(page)
    drawing = page.locator(".map canvas")
    before = drawing.screenshot()

    panel.get_by_role("button", name="Transfer…").click()
    plan = page.get_by_role("dialog")
    expect(plan.get_by_role("heading", name=f"Transfer {bundle} to {target.id}")).to_be_visible()
    expect(plan.get_by_text("the cluster takes this for a superuser")).to_be_visible()
    assert cluster.owner(topic) is source, "showing a plan carries nothing out"
    plan.get_by_role("button", name="Carry it out").click()

    expect(panel.get_by_text(f"owner {target.id}")).to_be_visible()
    assert cluster.owner(topic) is target
    found_soon(lambda: drawing.screenshot() != before, "the map is drawn again")
    page.get_by_role("tab", name="Moves").click()
    moves = page.get_by_role("region", name="Moves")
    expect(moves.get_by_text(f"Transfer {bundle} to {target.id}: done")).to_be_visible()
    expect(moves.get_by_text(f"moved from {source.id} to {target.id}")).to_be_visible()


def test_a_tile_of_the_map_can_be_clicked(page: Page, cluster: Cluster) -> None:
    drawing = page.locator(".map canvas")
    expect(page.get_by_role("img", name="2 brokers")).to_be_visible()
    map_is_drawn(page)
    box = drawing.bounding_box()
    assert box is not None
    drawing.click(position={"x": box["width"] / 4, "y": box["height"] / 2})
    panel = page.get_by_role("region", name="Chosen")
    expect(panel.get_by_role("heading", name="public/default/0x")).to_be_visible()
    drawing.click(position={"x": 30, "y": 12})
    expect(panel.get_by_role("button", name="Drain…")).to_be_visible()


def test_a_split_and_an_unload_by_button(page: Page, cluster: Cluster) -> None:
    bundle = cluster.bundle(TOPICS[1])
    panel = choose_bundle(page, bundle)
    panel.get_by_role("button", name="Unload…").click()
    page.get_by_role("dialog").get_by_role("button", name="Carry it out").click()
    page.get_by_role("tab", name="Moves").click()
    moves = page.get_by_role("region", name="Moves")
    expect(moves.get_by_text(f"Unload {bundle}: done")).to_be_visible()

    panel.get_by_role("button", name="Split…").click()
    plan = page.get_by_role("dialog")
    expect(plan.get_by_text("Pulsar cannot join bundles again")).to_be_visible()
    plan.get_by_role("button", name="Carry it out").click()
    expect(moves.get_by_text(f"Split {bundle}: done")).to_be_visible()
    assert cluster.bundle(TOPICS[1]) != bundle


def test_a_broker_is_drained_by_button(page: Page, cluster: Cluster) -> None:
    broker = next(each for each in cluster.brokers if each.alive and each.bundles)
    page.get_by_role("region", name="Brokers").get_by_role("button", name=broker.id).click()
    panel = page.get_by_role("region", name="Chosen")
    panel.get_by_role("button", name="Drain…").click()
    page.get_by_role("dialog").get_by_role("button", name="Carry it out").click()
    page.get_by_role("tab", name="Moves").click()
    moves = page.get_by_role("region", name="Moves")
    expect(moves.get_by_text(f"Drain {broker.id}: done")).to_be_visible()
    assert [each for each in broker.bundles if each.startswith("public/")] == []


def test_everything_can_be_reached_by_keyboard(page: Page, cluster: Cluster) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the tables")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("tab", name="Brokers")).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="Bundles")).to_have_attribute("aria-selected", "true")
    pick = page.get_by_role("region", name="Bundles").get_by_role("button").first
    expect(pick).to_be_visible()
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className").startswith("pick"):
            break
    page.keyboard.press("Enter")
    transfer = page.get_by_role("region", name="Chosen").get_by_role("button", name="Transfer…")
    expect(transfer).to_be_visible()
    transfer.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(transfer).to_be_focused()


@pytest.mark.parametrize(
    ("theme", "then", "width", "tabs"),
    [("light", "dark", 1440, TABS), ("dark", "light", 390, TABS[2:3])],
)
def test_axe_finds_no_fault(
    context: BrowserContext,
    console: str,
    theme: Literal["light", "dark"],
    then: Literal["light", "dark"],
    width: int,
    tabs: tuple[str, ...],
) -> None:
    with opened(context, console, theme=theme, width=width) as page:
        faults = faults_of(page)
        for tab in tabs:
            page.get_by_role("tab", name=tab).click()
            expect(page.get_by_role("region", name=tab)).to_be_visible()
            faults += faults_of(page)
        page.get_by_role("tab", name="Bundles").click()
        page.get_by_role("region", name="Bundles").locator("button.pick").first.click()
        page.get_by_role("button", name="Transfer…").click()
        expect(page.get_by_text("takes this for a superuser")).to_be_visible()
        faults += faults_of(page, "[role=dialog]")
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.get_by_role("button", name="Who acts").click()
        expect(page.get_by_role("heading", name="Who acts")).to_be_visible()
        faults += faults_of(page, "[role=dialog]")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        # The other theme, on the page as it is now.
        page.emulate_media(color_scheme=then)
        has_dark = expect(page.locator("body.body--dark"))
        has_dark.to_have_count(1 if then == "dark" else 0)
        faults += faults_of(page)
        assert not faults, "\n".join(sorted(set(faults)))
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def faults_of(page: Page, where: str = "body") -> list[str]:
    """What is serious or worse; an open dialog covers the page, so only the dialog is checked.

    What is still fading in has no contrast yet, so a fault is one that is there to stay.
    """
    for _ in range(20):
        found = Axe().run(page, context=where).response["violations"]
        faults = [
            f"{each['impact']} {each['id']}: {node['html'][:160]} {node['failureSummary'][:300]}"
            for each in found
            if each["impact"] in {"serious", "critical"}
            for node in each["nodes"]
        ]
        if not faults:
            break
        page.wait_for_timeout(500)
    return faults


def test_nothing_is_asked_of_another_host(browser: Browser, console: str) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(console)
        expect(page.locator(".map canvas")).to_be_visible()
        assert len(asked) > 10
        assert [url for url in asked if not url.startswith((console, "data:", "blob:"))] == []
