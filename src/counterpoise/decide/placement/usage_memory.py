"""What ``LeastResourceUsageWithWeight`` remembers from one placement to the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from counterpoise.load.rates import Floats
from counterpoise.load.view import Masks


class UsageMemory(Mapping[str, float]):
    """Remembered usage of each broker, as a share (0.85, not 85). Never changes.

    A column beside the candidates of the last call, because a call smooths every candidate and the
    next call mostly has the same ones; everybody else is kept by name.
    """

    __slots__ = ("_by_name", "_elsewhere", "_names", "_usage")

    def __init__(
        self, names: tuple[str, ...], usage: Floats, elsewhere: Mapping[str, float]
    ) -> None:
        usage.flags.writeable = False
        self._names = names
        self._usage = usage
        self._elsewhere = elsewhere
        self._by_name: Mapping[str, float] | None = None

    @staticmethod
    def of(usage: Mapping[str, float]) -> UsageMemory:
        """The memory of these brokers' usage."""
        return UsageMemory((), np.zeros(0), MappingProxyType(dict(usage)))

    def of_brokers(self, names: tuple[str, ...]) -> tuple[Floats, Masks | None]:
        """Usage of some brokers, 0 where nothing is remembered, and a mask of those (or None)."""
        if names is self._names or names == self._names:
            return self._usage, None
        by_name = self._named()
        usage = np.array([by_name.get(name, 0.0) for name in names])
        return usage, np.array([name not in by_name for name in names], dtype=np.bool_)

    def after(self, names: tuple[str, ...], usage: Floats) -> UsageMemory:
        """The memory with another usage of each of ``names``."""
        if names is self._names or names == self._names:
            return UsageMemory(names, usage, self._elsewhere)
        seen = set(names)
        others = {name: share for name, share in self.items() if name not in seen}
        return UsageMemory(names, usage, MappingProxyType(others))

    def _named(self) -> Mapping[str, float]:
        if self._by_name is None:
            column = zip(self._names, self._usage.tolist(), strict=True)
            self._by_name = MappingProxyType({**self._elsewhere, **dict(column)})
        return self._by_name

    def __getitem__(self, name: str) -> float:
        return self._named()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._named())

    def __len__(self) -> int:
        return len(self._named())

    def __repr__(self) -> str:
        return f"UsageMemory({dict(self._named())!r})"


NOTHING_REMEMBERED = UsageMemory.of({})
