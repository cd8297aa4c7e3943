"""What embedded clusters and clusters of processes share: default settings, ports and URLs."""

from collections.abc import Mapping, Sequence

LOCAL_DEFAULTS: Mapping[str, object] = {
    "advertisedAddress": "127.0.0.1",
    "bindAddress": "127.0.0.1",
    "brokerServicePort": 0,
    "webServicePort": 0,
    # Report load at once: the cluster may run for a few minutes only.
    "loadBalancerHostUsageCheckIntervalMinutes": 0,
    # Bundles stay where they are put, unless the settings say otherwise.
    "loadBalancerSheddingEnabled": False,
}
"""Settings of local brokers that differ from Pulsar's: loopback, free ports, no shedding."""


def nth_port(port: int | None, number: int) -> int | None:
    """Return the port of the broker at index `number`, if that of the first broker is `port`.

    0 (any free port) and None (no port) are the same for all brokers.
    """
    return port + number if port else port


def together(urls: Sequence[str]) -> str:
    """Join service URLs into one that lists the hosts of all; empty without URLs."""
    if not urls:
        return ""
    scheme = urls[0].partition("://")[0]
    return f"{scheme}://" + ",".join(each.partition("://")[2] for each in urls)
