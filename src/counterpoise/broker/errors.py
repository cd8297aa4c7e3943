"""What a broker refuses, in the words and the code that Pulsar's clients know."""

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
