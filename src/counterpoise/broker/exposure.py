"""What a broker says at its start when others than this machine's own people can reach it."""

from __future__ import annotations

from collections.abc import Iterator

from counterpoise.broker.config import BrokerConfig
from counterpoise.names.hosts import is_loopback


def exposures(config: BrokerConfig) -> Iterator[str]:
    """Whoever could do what nobody meant them to; nothing on loopback, which is this machine."""
    if is_loopback(config.bind_address):
        return
    here = f"bindAddress={config.bind_address} is open to other machines"
    if not config.authentication.enabled:
        yield (
            f"ANYBODY who reaches this broker may do EVERYTHING: {here}, and nobody has to prove "
            "who they are; set authenticationEnabled, or bindAddress=127.0.0.1"
        )
        return
    if not config.authorization.enabled:
        yield (
            f"whoever proves who they are may do everything: {here}; set authorizationEnabled and "
            "superUserRoles"
        )
    plain = {
        "brokerServicePort": config.broker_service_port,
        "webServicePort": config.web_service_port,
    }
    if open_ports := [name for name, port in plain.items() if port is not None]:
        yield (
            f"tokens and passwords can be read on their way: {here}, and "
            f"{' and '.join(open_ports)} speak no TLS; leave them blank, and set "
            "brokerServicePortTls and webServicePortTls"
        )
    if config.tls.allow_insecure and config.broker_service_port_tls is not None:
        yield (
            f"certificates that nobody vouches for are let in: {here}; leave "
            "tlsAllowInsecureConnection off"
        )
