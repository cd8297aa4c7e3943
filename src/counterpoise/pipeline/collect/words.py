"""Writes errors of brokers and networks as one line that an operator can read."""

import json
from collections.abc import Mapping

import aiohttp

LONGEST = 300
"""The most characters that are kept of another program's text."""
WHO = "say who you are by --auth-plugin and --auth-params"
"""Advice that is added when a broker refuses a request without credentials."""


def error_text(error: BaseException) -> str:
    """An error's text as one printable line, or the name of its class if it has none."""
    return line(_text_of(error) or type(error).__name__)


def refusal(status: int, body: str) -> str:
    """The text of an error response: HTTP status and reason, in one line."""
    try:
        reason = str(json.loads(body)["reason"])
    except (ValueError, KeyError, TypeError):
        reason = body
    # The text before the first frame of a stack trace has all that matters.
    reason = reason.replace("\\n", "\n").replace("\\t", "\t").split("\n\tat", 1)[0]
    return line(f"HTTP {status} {reason}") + (f"; {WHO}" if status == 401 else "")


def elsewhere(status: int, headers: Mapping[str, str]) -> str:
    """The error text when a broker redirects a request for its own figures to another address."""
    where = line(headers.get("Location", "nowhere"))
    return f"HTTP {status}: it sends us to {where}, and its figures are asked of it alone"


def line(text: str) -> str:
    """Text from another program as one line without control characters, cut if it is too long."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 1] + "…"


def _text_of(error: BaseException) -> str:
    match error:
        case aiohttp.ClientSSLError():
            return str(error)
        case aiohttp.ClientConnectorError():
            reason = error.os_error.strerror or str(error.os_error)
            return f"cannot connect to {error.host}:{error.port} ({reason})"
        case aiohttp.TooManyRedirects():
            return "it redirects without end"
        case aiohttp.NonHttpUrlRedirectClientError() | aiohttp.InvalidUrlRedirectClientError():
            return f"it redirects to {error}"
        case aiohttp.InvalidURL():
            return f"{error.url} is no address"
        case aiohttp.ClientPayloadError():
            return "its answer broke off"
        case aiohttp.ServerDisconnectedError():
            return "it closed the connection without an answer"
        case aiohttp.ClientResponseError():
            return f"its answer is no HTTP ({error.message})"
        case TimeoutError():
            return str(error) or "no answer in time"
        case _:
            return str(error)
