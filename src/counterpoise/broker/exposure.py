"""Warnings at a broker's start about what its settings expose to other machines."""

from collections.abc import Iterator

from counterpoise.broker.base.advertised import bind_addresses_of
from counterpoise.broker.config import BrokerConfig
from counterpoise.names.hosts import is_loopback


def exposures(config: BrokerConfig) -> Iterator[str]:
    """Yield a warning for each risk of ports that are open to other machines (not loopback)."""
    further = [
        each
        for each in bind_addresses_of(config.bind_addresses)
        if not is_loopback(each.host.strip("[]"))
    ]
    is_open = not is_loopback(config.bind_address)
    if not is_open and not further:
        return
    which = f"bindAddress={config.bind_address}" if is_open else "bindAddresses"
    here = f"{which} is open to other machines"
    if not config.authentication.enabled:
        yield (
            f"ANYBODY who reaches this broker may do EVERYTHING: {here}, and clients are not "
            "authenticated; set authenticationEnabled, or bindAddress=127.0.0.1"
        )
        return
    if not config.authorization.enabled:
        yield (
            f"every authenticated client may do everything: {here}; set authorizationEnabled and "
            "superUserRoles"
        )
    plain = {
        "brokerServicePort": is_open and config.broker_service_port is not None,
        "webServicePort": is_open and config.web_service_port is not None,
        "bindAddresses": any(not each.tls for each in further),
    }
    if open_ports := [name for name, speaks_plain in plain.items() if speaks_plain]:
        yield (
            f"tokens and passwords can be read on their way: {here}, and "
            f"{' and '.join(open_ports)} speak no TLS; leave them blank, and set "
            "brokerServicePortTls and webServicePortTls"
        )
    by_tls = is_open and config.broker_service_port_tls is not None
    if config.tls.allow_insecure and (by_tls or any(each.tls for each in further)):
        yield (
            f"certificates of unknown authorities are accepted: {here}; leave "
            "tlsAllowInsecureConnection off"
        )
