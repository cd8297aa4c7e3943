"""Options that may change while a broker runs (Pulsar's dynamic configuration)."""

from __future__ import annotations

from typing import Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)


class LiveOptions(Protocol[T_co]):
    """The options of one folder as they are now: called wherever they are needed, never kept."""

    def __call__(self) -> T_co:
        """The options that apply at this moment."""
