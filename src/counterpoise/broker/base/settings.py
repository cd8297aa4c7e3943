"""Options that may change while a broker runs (Pulsar's dynamic configuration)."""

from typing import Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)


class LiveOptions(Protocol[T_co]):
    """A function that returns the current options, which may change; call it at each use."""

    def __call__(self) -> T_co:
        """Return the options that are in force now."""
