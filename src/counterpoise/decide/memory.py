"""What a strategy remembers from one call to the next: a frozen value, and JSON both ways."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Protocol


class Memory(Protocol):
    """What a strategy remembers: frozen, and JSON both ways."""

    def to_json(self) -> dict[str, Any]:
        """The memory as a JSON object."""


@dataclass(frozen=True, slots=True)
class NoMemory:
    """The memory of a strategy that remembers nothing."""

    def to_json(self) -> dict[str, Any]:
        """An empty object."""
        return {}


NO_MEMORY: Final = NoMemory()


class Memoryless:
    """What a strategy that remembers nothing answers about its memory: inherit it."""

    def initial_memory(self) -> NoMemory:
        """It remembers nothing."""
        return NO_MEMORY

    def memory_from_json(self, value: Any) -> NoMemory:
        """It remembers nothing."""
        del value
        return NO_MEMORY

    def forget(self, memory: NoMemory, active: Collection[str]) -> NoMemory:
        """It remembers nothing."""
        del active
        return memory
