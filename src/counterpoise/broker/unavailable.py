"""A metadata store out of reach, in words that a client understands."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from counterpoise.broker.errors import BrokerError
from counterpoise.metadata import StoreUnavailable
from counterpoise.wire.errors import ServerError


@contextlib.contextmanager
def store_errors_as_not_ready() -> Iterator[None]:
    """Turn `StoreUnavailable` into ServiceNotReady, upon which clients try again."""
    try:
        yield
    except StoreUnavailable as error:
        raise BrokerError(ServerError.ServiceNotReady, str(error)) from error
