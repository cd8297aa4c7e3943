"""A cluster, and a small HTTP client that shows redirects instead of hiding them."""

import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pulsar
import pytest

from counterpoise import Cluster

SILENT = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(frozen=True)
class Answer:
    """Status, JSON (or text) and the address of a redirect."""

    status: int
    value: Any
    location: str | None

    @property
    def reason(self) -> str:
        return str(self.value["reason"])


@dataclass(frozen=True)
class Api:
    """One broker's REST API."""

    url: str

    def __call__(self, method: str, path: str, body: Any = None, *, follow: bool = True) -> Answer:
        """Ask; a 307 is followed, with method and body, unless ``follow`` is off."""
        answer = self._once(self.url + path, method, body)
        for _ in range(5):
            if answer.status != 307 or not follow or answer.location is None:
                break
            answer = self._once(answer.location, method, body)
        return answer

    def get(self, path: str) -> Any:
        """The value at a path, which must be there."""
        answer = self("GET", path)
        assert answer.status == 200, answer
        return answer.value

    def _once(self, url: str, method: str, body: Any) -> Answer:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, data, headers, method=method)
        opener = urllib.request.build_opener(_Stay)
        try:
            with opener.open(request, timeout=30) as response:
                return _answer(response)
        except urllib.error.HTTPError as error:
            with error:
                return _answer(error)


def _answer(response: Any) -> Answer:
    text = response.read().decode()
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return Answer(response.status, value, response.headers.get("Location"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three brokers for the tests of one module."""
    forced = {f"forceDelete{kind}Allowed": True for kind in ("Tenant", "Namespace")}
    with Cluster(brokers=3, config=forced) as running:
        yield running


@pytest.fixture
def api(cluster: Cluster) -> Api:
    """The API of the first broker."""
    return Api(cluster.admin_url)


@pytest.fixture
def connect(cluster: Cluster) -> Iterator[Callable[[], pulsar.Client]]:
    """Makes clients of the cluster, closed after the test."""
    clients: list[pulsar.Client] = []

    def make() -> pulsar.Client:
        clients.append(pulsar.Client(cluster.service_url, logger=SILENT))
        return clients[-1]

    yield make
    for each in clients:
        with contextlib.suppress(pulsar.AlreadyClosed):
            each.close()


@pytest.fixture
def namespace(api: Api, request: pytest.FixtureRequest) -> str:
    """A namespace of this test alone, with one bundle."""
    return namespace_of_test(api, request, bundles=1)


def namespace_of_test(api: Api, request: pytest.FixtureRequest, *, bundles: int) -> str:
    """Make a namespace of this test alone, with so many bundles; returns its name."""
    api("PUT", "/admin/v2/tenants/t", {"allowedClusters": ["standalone"]})
    name = f"t/{request.node.name.replace('[', '-').replace(']', '').replace('/', '-')}"
    policies = {"bundles": {"numBundles": bundles}}
    assert api("PUT", f"/admin/v2/namespaces/{name}", policies).status == 204
    return name
