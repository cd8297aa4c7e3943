"""What a real cluster looks like to somebody who is not the program under test."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from tests.real.load import topics_of


def call(url: str, body: object = None, method: str = "GET") -> Any:
    """A request to the admin API, and its answer; raises for whatever is not a success."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=30) as response:
        text = response.read()
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
        deadline = time.monotonic() + 30
        while any(call(f"{url}{base}/runtime").get(name) != value for url in self.web_urls):
            if time.monotonic() > deadline:
                raise SystemExit(f"{name}={value} did not reach every broker")
            time.sleep(0.2)

    def owners(self) -> dict[str, list[str]]:
        """By bundle of the namespace: every broker that says it owns it."""
        found: dict[str, list[str]] = {}
        for broker, url in zip(self.brokers, self.web_urls, strict=True):
            owned = call(f"{url}/admin/v2/brokers/real/{broker}/ownedNamespaces")
            for bundle in owned:
                if bundle.startswith(f"{self.namespace}/"):
                    found.setdefault(bundle, []).append(broker)
        return found

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
        """How many bundles of the namespace each broker owns."""
        held = [broker for brokers in self.owners().values() for broker in brokers]
        return {broker: held.count(broker) for broker in self.brokers}

    def leader(self) -> str:
        try:
            return str(call(f"{self.web_urls[0]}/admin/v2/brokers/leaderBroker")["brokerId"])
        except urllib.error.HTTPError:
            return ""
