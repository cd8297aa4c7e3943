"""Requests another broker to unload a bundle: by its admin API, as an administrator would."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from counterpoise.broker.base.errors import BrokerError
from counterpoise.names.bundle import BundleName
from counterpoise.security.client import ClientSecurity, http_session
from counterpoise.wire.errors import ServerError

ORDERED_BY_LEADER: Final = "X-Counterpoise-Ordered-By"
"""A header that names the requesting broker; metrics count such unloads apart."""


@dataclass(frozen=True, slots=True)
class UnloadRequest:
    """A request from the leader to a bundle's owner to unload the bundle."""

    bundle: BundleName
    destination: str | None
    """The broker that is to get the bundle; None: the one that placement chooses."""
    by: str
    """The id of the broker that requests it."""
    within_s: float


async def request_unload(web_url: str, request: UnloadRequest, security: ClientSecurity) -> None:
    """Ask a bundle's owner at ``web_url`` to unload it; returns when it has.

    Raises `BrokerError` if that is not confirmed.
    """
    # Imported here: it takes longer to load than a small cluster takes to start.
    import aiohttp

    bundle = request.bundle
    url = f"{web_url}/admin/v2/namespaces/{bundle.namespace}/{bundle.range}/unload"
    if request.destination is not None:
        url += f"?destinationBroker={quote(request.destination, safe='')}"
    try:
        async with (
            http_session(security, request.within_s) as session,
            session.put(url, headers={ORDERED_BY_LEADER: request.by}) as answer,
        ):
            if answer.status >= 300:
                reason = (await answer.text())[:500].strip() or answer.reason or "no reason given"
                raise _refused(bundle, f"{web_url} answers {answer.status}: {reason}")
    except TimeoutError:
        raise _refused(bundle, f"{web_url} did not answer in {request.within_s:g} s") from None
    except (aiohttp.ClientError, OSError) as error:
        raise _refused(bundle, f"{web_url} cannot be reached: {error}") from error


def _refused(bundle: BundleName, why: str) -> BrokerError:
    return BrokerError(ServerError.ServiceNotReady, f"{bundle} was not unloaded: {why}")
