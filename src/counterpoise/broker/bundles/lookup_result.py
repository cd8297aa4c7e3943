"""The results of a lookup: connect to a broker, or ask another one."""

from dataclasses import dataclass, replace

from counterpoise.broker.base.addresses import Addresses
from counterpoise.broker.base.advertised import SERVICE_URL, SERVICE_URL_TLS
from counterpoise.broker.base.errors import BrokerError
from counterpoise.wire.errors import ServerError


@dataclass(frozen=True, slots=True)
class LookupConnect(Addresses):
    """Lookup result: the client shall connect to this broker (``LookupType.LookupConnect``)."""


@dataclass(frozen=True, slots=True)
class LookupRedirect(Addresses):
    """Lookup result: the client shall send its lookup to this broker (``LookupRedirect``)."""

    authoritative: bool = False
    """Whether the broker was chosen already, and takes the bundle without asking the leader."""


LookupResult = LookupConnect | LookupRedirect


def for_listener(listener: str | None, answer: LookupResult) -> LookupResult:
    """A lookup result with the broker's addresses for one advertised listener (None: as it is).

    Raises `BrokerError` (ServiceNotReady), in Pulsar's words, if the broker has no such listener.
    """
    if not listener:
        return answer
    urls = answer.listeners.get(listener)
    if urls is None:
        raise BrokerError(
            ServerError.ServiceNotReady, f"the broker do not have {listener} listener"
        )
    return replace(
        answer, service_url=urls.get(SERVICE_URL), service_url_tls=urls.get(SERVICE_URL_TLS)
    )
