"""Who may do what from the console: the cluster says so, and what it refuses is not begun.

The cluster speaks TLS alone, so everything here also holds by ``https://``.
"""

from collections.abc import Iterator

import pulsar
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from counterpoise import Cluster
from tests.console.conftest import StartConsole, opened

pytestmark = [pytest.mark.browser, pytest.mark.client]
TOPIC = "public/default/orders"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    by_tls_alone = {"brokerServicePort": "", "webServicePort": ""}
    with Cluster(brokers=2, tokens=True, tls=True, config=by_tls_alone) as made:
        client = pulsar.Client(
            made.service_url,
            tls_trust_certs_file_path=made.security.trust_certs,
            authentication=pulsar.AuthenticationToken(made.security.token("admin")),
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
        client.create_producer(TOPIC).send(b"hello")
        yield made
        client.close()


@pytest.fixture(scope="module")
def console(cluster: Cluster, start_console: StartConsole) -> str:
    urls = ",".join(each.admin_url for each in cluster.brokers)
    assert urls.startswith("https://")
    return start_console("--admin-url", urls, *cluster.security.admin_options)


@pytest.fixture
def page(context: BrowserContext, console: str) -> Iterator[Page]:
    with opened(context, console) as page:
        yield page


def ask_for_a_transfer(page: Page) -> None:
    page.get_by_role("tab", name="Bundles").click()
    page.get_by_role("region", name="Bundles").locator("button.pick").first.click()
    page.get_by_role("button", name="Transfer…").click()


def test_a_role_that_may_not_is_refused_before_anything_is_done(
    page: Page, cluster: Cluster
) -> None:
    owner = cluster.owner(TOPIC)
    page.get_by_role("button", name="Who acts: admin").click()
    page.get_by_label("Your token").fill(cluster.security.token("visitor"))
    page.get_by_role("button", name="Act with it").click()
    expect(page.get_by_role("button", name="Who acts: visitor (your token)")).to_be_visible()
    ask_for_a_transfer(page)
    plan = page.get_by_role("dialog")
    expect(plan.get_by_text("the cluster refuses visitor (your token): HTTP 40")).to_be_visible()
    act = plan.get_by_role("button", name="Carry it out")
    expect(act).to_be_disabled()
    act.evaluate("button => { button.disabled = false; button.click() }")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("tab", name="Moves").click()
    expect(page.get_by_text("Nothing has been asked for yet.")).to_be_visible()
    assert cluster.owner(TOPIC) is owner


def test_a_role_that_may_is_let(page: Page, cluster: Cluster) -> None:
    owner = cluster.owner(TOPIC)
    ask_for_a_transfer(page)
    plan = page.get_by_role("dialog")
    expect(plan.get_by_text("admin (the console's own token): the cluster takes")).to_be_visible()
    plan.get_by_role("button", name="Carry it out").click()
    page.get_by_role("tab", name="Moves").click()
    expect(page.get_by_role("region", name="Moves").get_by_text(": done")).to_be_visible()
    assert cluster.owner(TOPIC) is not owner


def test_a_token_is_in_no_page(context: BrowserContext, console: str, cluster: Cluster) -> None:
    with opened(context, console) as page:
        assert cluster.security.token("admin")[:60] not in page.content()
