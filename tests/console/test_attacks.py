"""What may go wrong with what a page shows, and who may misuse it."""

import asyncio
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.console.conftest import StartConsole, opened
from tests.console.staged import Staged, staged
from tests.pipeline.fake_cluster import bundle_name

pytestmark = pytest.mark.browser
EVIL = "public/<img src=x onerror=document.title='owned'>"


def staged_with_load() -> Iterator[Staged]:
    with staged() as made:
        one, two = made.brokers
        made.carry(one, bundle_name(1), 5_000.0)
        made.carry(one, bundle_name(2), 3_000.0)
        made.carry(two, bundle_name(3), 1_000.0)
        yield made


cluster = pytest.fixture(scope="module")(staged_with_load)
doomed = pytest.fixture(staged_with_load)
"""A cluster that a test may do away with; the other one is shared."""


@pytest.fixture(scope="module")
def console(cluster: Staged, start_console: StartConsole) -> str:
    return start_console("--admin-url", cluster.admin_url)


@pytest.fixture
def page(context: BrowserContext, console: str) -> Iterator[Page]:
    with opened(context, console) as page:
        yield page


@pytest.fixture
def doomed_page(
    context: BrowserContext, doomed: Staged, start_console: StartConsole
) -> Iterator[Page]:
    with opened(context, start_console("--admin-url", doomed.admin_url)) as page:
        yield page


def choose(page: Page, bundle: str) -> None:
    page.get_by_role("tab", name="Bundles").click()
    page.get_by_role("region", name="Bundles").get_by_role("button", name=bundle).click()


def test_a_broker_that_hangs_is_named_and_the_others_go_on(
    doomed_page: Page, doomed: Staged
) -> None:
    page, cluster = doomed_page, doomed
    one, two = cluster.brokers

    def hang() -> None:
        one.hangs = asyncio.Event()

    cluster.on_loop(hang)
    brokers = page.get_by_role("region", name="Brokers")
    silent = brokers.get_by_text("silent: no answer within 4 s")
    expect(silent).to_be_visible()
    cluster.carry(two, bundle_name(4), 9_000.0)
    page.get_by_role("tab", name="Bundles").click()
    added = page.get_by_role("region", name="Bundles").get_by_role("button", name=bundle_name(4))
    expect(added).to_be_visible()
    choose(page, bundle_name(1))
    page.get_by_role("button", name="Unload…").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("does not answer")
    page.get_by_role("button", name="Cancel").click()
    cluster.on_loop(one.hangs.set)  # type: ignore[union-attr]


def test_a_cluster_that_goes_away_is_reported_and_the_last_picture_stays(
    doomed_page: Page, doomed: Staged
) -> None:
    page, cluster = doomed_page, doomed

    def go_away() -> None:
        # All at once: a poll between two of them would find a cluster of the other's bundles.
        for broker in cluster.brokers:
            broker.away = True

    cluster.on_loop(go_away)
    expect(page.get_by_role("alert").first).to_contain_text("the cluster does not answer")
    expect(page.get_by_text("out of reach", exact=True)).to_be_visible()
    choose(page, bundle_name(1))
    page.get_by_role("button", name="Transfer…").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("does not answer")
    expect(page.get_by_role("button", name="Carry it out")).to_be_disabled()


def test_two_who_ask_for_the_same_move_make_one(
    context: BrowserContext, page: Page, console: str, cluster: Staged
) -> None:
    with opened(context, console) as other:
        for each in (page, other):
            choose(each, bundle_name(1))
            each.get_by_role("button", name="Transfer…").click()
            expect(each.get_by_text("takes this for a superuser")).to_be_visible()
        for each in (page, other):
            each.get_by_role("button", name="Carry it out").click()
        page.get_by_role("tab", name="Moves").click()
        moves = page.get_by_role("region", name="Moves")
        expect(moves.get_by_text(f"Transfer {bundle_name(1)}").first).to_contain_text(": done")
        assert [bundle for bundle, _ in cluster.unloads] == [bundle_name(1)]
        cluster.unloads.clear()


def test_a_name_is_never_taken_for_html(
    context: BrowserContext, cluster: Staged, console: str
) -> None:
    bundle = f"{EVIL}/0x00000000_0xffffffff"
    cluster.carry(cluster.brokers[0], bundle, 70_000.0)
    with opened(context, console) as page:
        page.get_by_role("tab", name="Bundles").click()
        row = page.get_by_role("region", name="Bundles").get_by_role("button", name="<img src=x")
        row.click()
        heading = page.get_by_role("region", name="Chosen").get_by_role("heading", name=EVIL)
        expect(heading).to_be_visible()
        page.locator(".map canvas").hover(position={"x": 200, "y": 150})
        page.get_by_role("button", name="Transfer…").click()
        expect(page.get_by_role("dialog")).to_contain_text("<img")
        assert page.title() == "Counterpoise"
        assert page.locator("img[src=x]").count() == 0


def test_a_refusal_of_the_cluster_is_shown_in_its_own_words(page: Page, cluster: Staged) -> None:
    cluster.refuse_unload = 403
    choose(page, bundle_name(2))
    page.get_by_role("button", name="Transfer…").click()
    page.get_by_role("button", name="Carry it out").click()
    page.get_by_role("tab", name="Moves").click()
    moves = page.get_by_role("region", name="Moves")
    expect(moves.get_by_text('unload: HTTP 403 {"reason": "no"}')).to_be_visible()
    expect(moves.get_by_text(": failed").first).to_be_visible()
    cluster.refuse_unload = 0
