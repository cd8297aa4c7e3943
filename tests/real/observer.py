"""What a real cluster looks like from outside the program under test."""

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from tests.real.load import topics_of
from tests.waiting import answer_within


def call(url: str, body: object = None, method: str = "GET", within: float = 60) -> Any:
    """A request to the admin API, and its answer; raises for whatever is not a success."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=within) as response:
            text = response.read()
    except urllib.error.HTTPError as error:
        if error.code != 307:
            raise
        return call(error.headers["Location"], body, method, within)
    return json.loads(text) if text.strip() else None


class Cluster:
    """The brokers of a real Pulsar, asked one by one."""

    def __init__(self, web_urls: Sequence[str], namespace: str) -> None:
        self.web_urls = web_urls
        self.brokers = [urlsplit(url).netloc for url in web_urls]
        self.namespace = namespace
        self._bundle_of: dict[str, str] = {}

    def set_dynamic(self, name: str, value: str) -> None:
        """As `pulsar-admin brokers update-dynamic-config` does; returns when every broker knows."""
        base = "/admin/v2/brokers/configuration"
        call(f"{self.web_urls[0]}{base}/{name}/{value}", method="POST")

        def is_known() -> bool:
            return all(call(f"{url}{base}/runtime").get(name) == value for url in self.web_urls)

        if not answer_within(is_known, 30, 0.2):
            raise SystemExit(f"{name}={value} did not reach every broker")

    def owners(self) -> dict[str, list[str]]:
        """By bundle that has a topic: everybody whom some broker takes for its owner.

        By lookups: `ownedNamespaces` can stop a broker that takes bundles over.
        """
        found: dict[str, set[str]] = {}
        for topic in topics_of(self.namespace):
            path, named = topic.replace("://", "/"), found.setdefault(self.bundle_of(topic), set())
            for url in self.web_urls:
                named.add(urlsplit(call(f"{url}/lookup/v2/topic/{path}")["httpUrl"]).netloc)
        return {bundle: sorted(named) for bundle, named in found.items()}

    def bundle_of(self, topic: str) -> str:
        """The bundle of a topic, asked once: none is split here."""
        if topic not in self._bundle_of:
            path = topic.replace("://", "/")
            url = f"{self.web_urls[0]}/lookup/v2/topic/{path}/bundle"
            with urllib.request.urlopen(url, timeout=30) as response:
                span = response.read().decode().strip().strip('"')
            self._bundle_of[topic] = f"{self.namespace}/{span}"
        return self._bundle_of[topic]

    def imbalance(self, weights: Sequence[float]) -> float:
        """Largest ÷ mean - 1 of what brokers carry, by who owns each topic and its part."""
        owners = self.owners()
        carried = dict.fromkeys(self.brokers, 0.0)
        for topic, weight in zip(topics_of(self.namespace), weights, strict=True):
            for broker in owners.get(self.bundle_of(topic), ()):
                carried[broker] += weight
        return max(carried.values()) / (sum(carried.values()) / len(carried)) - 1

    def counts(self) -> dict[str, int]:
        """How many bundles with topics each broker owns."""
        held = [broker for brokers in self.owners().values() for broker in brokers]
        return {broker: held.count(broker) for broker in self.brokers}

    def leader(self) -> str:
        try:
            return str(call(f"{self.web_urls[0]}/admin/v2/brokers/leaderBroker")["brokerId"])
        except urllib.error.HTTPError:
            return ""
