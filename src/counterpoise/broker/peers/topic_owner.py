"""Connects to the broker that serves a topic."""

from collections.abc import Callable
from typing import Final

from counterpoise.broker.peers.connection import TLS_SCHEME, PeerConnection, PeerError
from counterpoise.security.client import ANONYMOUS, ClientSecurity
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto.base_pb2 import BaseCommand

_LookupType = commands.CommandLookupTopicResponse.LookupType
_REDIRECTS_MAX: Final = 8


async def connect_to_owner(
    topic: str,
    url: str,
    timeout_s: float,
    security: ClientSecurity = ANONYMOUS,
    on_message: Callable[[BaseCommand, bytes], None] = lambda _command, _entry: None,
    on_closed: Callable[[str], None] = lambda _: None,
) -> PeerConnection:
    """Connect to a topic's owner, looked up at any broker ``url``; raises `PeerError`.

    ``timeout_s`` bounds each connection; ``on_message`` and ``on_closed`` are
    `PeerConnection.open`'s.
    """
    authoritative = False
    for _ in range(_REDIRECTS_MAX):
        peer = await PeerConnection.open(url, on_message, on_closed, timeout_s, security)
        try:
            answer = await peer.request(
                commands.CommandLookupTopic(topic=topic, authoritative=authoritative)
            )
            found = answer.lookup_topic_response
            if found.response == _LookupType.Failed:
                raise PeerError(f"{url} does not know who serves {topic}: {found.message}")
            there = _same_kind(url, found)
        except BaseException:
            peer.close()
            raise
        if found.response == _LookupType.Connect and there == url:
            return peer
        peer.close()
        url, authoritative = there, found.authoritative
    raise PeerError(f"{topic}: sent from broker to broker {_REDIRECTS_MAX} times")


def _same_kind(url: str, found: commands.CommandLookupTopicResponse) -> str:
    """Return the TLS address in a lookup's result if ``url`` is a TLS one, else the plain one."""
    tls = url.startswith(TLS_SCHEME)
    there: str = found.broker_service_url_tls if tls else found.broker_service_url
    if not there:
        raise PeerError(f"{url} sends on to a broker that does not speak {'TLS' if tls else 'it'}")
    return there
