"""The console in a real browser, about a real cluster."""

from collections.abc import Iterator

import pulsar
import pytest
from playwright.sync_api import Browser, Page, expect

from counterpoise import Cluster
from tests.console.conftest import StartConsole

pytestmark = [pytest.mark.browser, pytest.mark.client]

TOPICS = [f"public/default/orders-{i}" for i in range(6)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {"loadBalancerReportUpdateMinIntervalMillis": 100}
    with Cluster(brokers=2, config=config) as made:
        client = pulsar.Client(
            made.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        for topic in TOPICS:
            client.create_producer(topic).send(b"hello")
        yield made
        client.close()


@pytest.fixture(scope="module")
def console(cluster: Cluster, start_console: StartConsole) -> str:
    return start_console("--admin-url", cluster.admin_url)


@pytest.fixture
def page(browser: Browser, console: str) -> Iterator[Page]:
    with browser.new_context() as context:
        opened = context.new_page()
        opened.goto(console)
        yield opened


def test_it_shows_the_brokers_and_goes_on_without_reloading(page: Page, cluster: Cluster) -> None:
    brokers = page.get_by_role("region", name="Brokers")
    for broker in cluster.brokers:
        expect(brokers.get_by_role("cell", name=broker.id)).to_be_visible()
    added = cluster.add_broker()
    expect(brokers.get_by_role("cell", name=added.id)).to_be_visible()
    cluster.stop_broker(added)
    expect(brokers.get_by_role("cell", name=added.id)).to_have_count(0)
