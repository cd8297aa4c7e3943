"""The admin requests of the demo."""

import json
import urllib.error
import urllib.request
from typing import Any

from counterpoise.load.report import LocalBrokerData
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName

TIMEOUT_S = 10.0


class AdminError(Exception):
    """A request failed; the message has its method, its URL and the reason."""


def create_namespace(admin_url: str, namespace: NamespaceName, bundles: int) -> None:
    """Create a namespace with ``bundles`` bundles; raises `AdminError`."""
    _call(
        "PUT", f"{admin_url}/admin/v2/namespaces/{namespace}", {"bundles": {"numBundles": bundles}}
    )


def owner_of(admin_url: str, topic: str) -> str:
    """Look up the broker (``host:webPort``) that serves a topic; raises `AdminError`.

    If the topic's bundle has no owner, the lookup assigns one.
    """
    name = TopicName.parse(topic)
    path = f"{name.domain}/{name.namespace_name}/{name.local_name}"
    found = _call("GET", f"{admin_url}/lookup/v2/topic/{path}")
    return str(found["httpUrl"]).removeprefix("http://")


def load_report(broker: str) -> LocalBrokerData:
    """Read the load report of a broker, ``host:webPort``; raises `AdminError`."""
    document = _call("GET", f"http://{broker}/admin/v2/broker-stats/load-report")
    return LocalBrokerData.from_json(document)


def _call(method: str, url: str, body: Any = None) -> Any:
    request = urllib.request.Request(  # noqa: S310  the address is our own cluster's
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310
            text = response.read()
    except urllib.error.HTTPError as error:
        reason = error.read().decode(errors="replace").strip()
        raise AdminError(f"{method} {url}: HTTP {error.code} {reason}") from None
    except OSError as error:
        raise AdminError(f"{method} {url}: {error}") from None
    return json.loads(text) if text else None
