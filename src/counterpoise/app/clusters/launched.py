"""What the launchers of local clusters share, in one process or in several."""

from collections.abc import Mapping, Sequence

LOCAL_DEFAULTS: Mapping[str, object] = {
    "advertisedAddress": "127.0.0.1",
    "bindAddress": "127.0.0.1",
    "brokerServicePort": 0,
    "webServicePort": 0,
    # The cluster runs for minutes: its load is to be reported at once.
    "loadBalancerHostUsageCheckIntervalMinutes": 0,
    # Bundles stay where they are put, unless the settings say otherwise.
    "loadBalancerSheddingEnabled": False,
}
"""Where a local broker differs from Pulsar's defaults: loopback, free ports, no shedding."""


def nth_port(port: int | None, number: int) -> int | None:
    """The port of broker `number` (from 0) if the first one's is `port`; 0 and None stay."""
    return port + number if port else port


def together(urls: Sequence[str]) -> str:
    """One service URL with the hosts of all these URLs; empty for none."""
    if not urls:
        return ""
    scheme = urls[0].partition("://")[0]
    return f"{scheme}://" + ",".join(each.partition("://")[2] for each in urls)
