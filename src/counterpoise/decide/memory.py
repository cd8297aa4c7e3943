"""What a strategy remembers between calls: a frozen value, which can be written as JSON."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, Self, TypeVar


class Memory(Protocol):
    """What a strategy remembers: immutable, and convertible to JSON and back."""

    def to_json(self) -> dict[str, Any]:
        """The memory as a JSON object."""


@dataclass(frozen=True, slots=True)
class NoMemory:
    """The memory of a strategy that remembers nothing."""

    def to_json(self) -> dict[str, Any]:
        """An empty object."""
        return {}

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        """An empty memory, whatever the JSON is."""
        del value, path
        return cls()


NO_MEMORY: Final = NoMemory()


class ReadableMemory(Memory, Protocol):
    """A memory that can be read from JSON; its class without arguments makes an empty one."""

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        """The memory that `to_json` wrote; raises ``LoadDataError``."""


M = TypeVar("M", bound=ReadableMemory)


class Remembering(Generic[M]):
    """Base class of strategies with a memory: makes an empty one and reads it from JSON.

    A subclass sets ``remembers`` to the class of its memory.
    """

    remembers: type[M]

    def initial_memory(self) -> M:
        """The empty memory, before the first call."""
        return self.remembers()

    def memory_from_json(self, value: Any) -> M:
        """The memory that `Memory.to_json` wrote; raises ``LoadDataError``."""
        return self.remembers.from_json(value, "memory")

    def forget(self, memory: M, active: Collection[str]) -> M:
        """The memory unchanged: most of Pulsar's classes keep what they know of former brokers."""
        del active
        return memory


class Memoryless(Remembering[NoMemory]):
    """Base class of strategies without a memory."""

    remembers = NoMemory
