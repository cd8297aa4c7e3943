"""The page of several clusters, looked at with a browser."""

import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, expect

from counterpoise import Cluster
from counterpoise.app.clusters.processes import Child, ChildSpec
from tests.console.conftest import StartConsole

pytestmark = pytest.mark.browser

HOSTILE = '<img src=x onerror="document.title=1">'


@pytest.fixture(scope="module")
def url(start_console: StartConsole, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console of three clusters, one of them away and with a name that looks like HTML."""
    folder = tmp_path_factory.mktemp("fleet")
    with Cluster(brokers=3) as cluster:
        # Not in this process, whose event loop is the browser's; and all the while, since a
        # balancer counts as running for a minute after its last look.
        watch = [sys.executable, "-m", "counterpoise.app.main", "watch", "--interval", "5s"]
        where = ["--admin-url", cluster.admin_url, "--history", str(folder / "history")]
        looking = ChildSpec("watch", [*watch, *where], lambda line: True, folder / "watch.log")
        (folder / "fleet.toml").write_text(
            f'[[cluster]]\nname = "east"\nadmin-url = "{cluster.admin_url}"\n'
            f'history = "{folder}/history"\nconsole = "http://console-east.example/"\n'
            f"[[cluster]]\nname = '{HOSTILE}'\n"
            f'admin-url = "http://127.0.0.1:1"\nservice-url = "pulsar://b:6650"\n'
        )
        with Child.start(looking):
            yield start_console("--fleet", str(folder / "fleet.toml"), "--within", "60s")


def test_each_cluster_is_a_card_that_leads_to_its_console(
    url: str, context: BrowserContext
) -> None:
    with closing(context.new_page()) as page:
        page.goto(url)
        away = page.get_by_role("region", name=HOSTILE)
        expect(away).to_contain_text("out of reach")
        expect(away).to_contain_text("cannot connect")
        expect(away).to_contain_text("pulsar://b:6650")
        east = page.get_by_role("region", name="east")
        expect(east).to_contain_text("running")
        link = east.get_by_role("link", name="east")
        expect(link).to_have_attribute("href", "http://console-east.example/")
        assert page.title() == "Counterpoise: fleet"
        assert page.locator("img").count() == 0
        wide = page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert wide
        link.evaluate("link => { link.focus(); link.dataset.old = 1 }")
        expect(page.locator("[data-old]")).to_have_count(0)
        expect(link).to_be_focused()
        found = Axe().run(page)
        assert not found.response["violations"], found.generate_report()


def test_programs_get_metrics_and_pages_of_other_sites_get_nothing(url: str) -> None:
    with urllib.request.urlopen(f"{url}metrics", timeout=60) as response:
        assert b"counterpoise_fleet_" in response.read()
    for header, value in (("Origin", "http://evil.example"), ("Host", "evil.example")):
        request = urllib.request.Request(url, headers={header: value})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        refused.value.close()
        assert refused.value.code == 403
