"""A broker's errors, with the codes and words of Pulsar's protocol."""

import contextlib
from collections.abc import Iterator

from counterpoise.metadata import StoreUnavailable
from counterpoise.wire.errors import ServerError


class BrokerError(Exception):
    """A request that this broker cannot serve.

    ``code`` decides what the client does (retry after a lookup, give up, …); ``message`` is for
    a person.
    """

    def __init__(self, code: ServerError, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


@contextlib.contextmanager
def store_errors_as_not_ready() -> Iterator[None]:
    """Turn `StoreUnavailable` into ServiceNotReady, upon which clients retry."""
    try:
        yield
    except StoreUnavailable as error:
        raise BrokerError(ServerError.ServiceNotReady, str(error)) from error
