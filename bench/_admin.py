"""Calls of the admin API, as pulsar-admin makes them."""

import contextlib
import json
import urllib.error
import urllib.request
from typing import Any


class RefusedError(OSError):
    """A cluster's refusal of a request."""


def call(method: str, url: str, body: object = None, redirects: int = 5) -> Any:
    """One admin call; a redirect is followed with its method and body, as pulsar-admin does."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url, method=method, data=data, headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            text = response.read().decode()
    except urllib.error.HTTPError as error:
        if error.code == 307 and redirects:
            return call(method, error.headers["Location"], body, redirects - 1)
        said = error.read().decode(errors="replace")[:300]
        raise RefusedError(f"{method} {url} answers {error.code}: {said}") from None
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return text or None
