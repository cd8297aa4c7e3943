"""Strategies by name: Pulsar's, Counterpoise's, and an operator's own as ``module:Class``."""

import dataclasses
import importlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

from counterpoise.decide.memory import Memory
from counterpoise.names.options import ConfigError

M = TypeVar("M", bound=Memory)
C_co = TypeVar("C_co", covariant=True)


class Registered(Protocol[M, C_co]):
    """What every strategy has in common: a name, options and a memory.

    ``M`` is the class of its memory, ``C_co`` of its options.
    """

    @property
    def name(self) -> str:
        """The short name, such as ``ThresholdShedder``, by which it is selected."""

    @property
    def options(self) -> type[C_co]:
        """The frozen dataclass of its options (`names/options.py`); all of them have defaults."""

    def initial_memory(self) -> M:
        """The memory before the first call."""

    def memory_from_json(self, value: Any) -> M:
        """The memory that :meth:`Memory.to_json` wrote."""

    def forget(self, memory: M, active: Collection[str]) -> M:
        """The memory without brokers other than ``active`` (``onActiveBrokersChange``)."""


S = TypeVar("S", bound=Registered[Any, Any])


class Registry(Mapping[str, S], Generic[S]):
    """The built-in strategies by short name; `find` also loads others.

    A strategy in the registry is known, with all its settings, to the command line, to
    `broker.conf` and to `--set`.
    """

    def __init__(self, setting: str, contract: type[Any], strategies: Mapping[str, S]) -> None:
        """``strategies`` are by the name of Pulsar's class, or else by the short name.

        ``setting`` is the option that selects one of them; ``contract`` is a runtime-checkable
        protocol that each has to satisfy.
        """
        self._setting = setting
        self._contract = contract
        self._by_class = dict(strategies)
        self._by_name = {made.name: made for made in strategies.values()}

    def __getitem__(self, name: str) -> S:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def options(self) -> tuple[type[Any], ...]:
        """The options class of each strategy, each once."""
        return tuple(dict.fromkeys(made.options for made in self.values()))

    def built_in(self, name: str) -> S:
        """The strategy with this short name or Java class name; raises `ConfigError`."""
        made = self._by_name.get(name) or self._by_class.get(name)
        if made is None:
            known = ", ".join(self)
            raise ConfigError(self._setting, f"no strategy is called {name!r}; there are {known}")
        return made

    def find(self, name: str) -> S:
        """The strategy of this name, which may be `module:Class`; raises `ConfigError`."""
        module, mark, attribute = name.partition(":")
        if not mark:
            try:
                return self.built_in(name)
            except ConfigError as error:
                raise ConfigError(self._setting, f"{error.problem}, or module:Class") from None
        if not module or not attribute:
            raise ConfigError(self._setting, f"{name!r} is not module:Class")
        try:
            made = getattr(importlib.import_module(module), attribute)()
        except Exception as error:  # importing an operator's own module may raise anything
            reason = f"{type(error).__name__}: {error}"
            raise ConfigError(self._setting, f"{name!r} cannot be loaded: {reason}") from None
        if not isinstance(made, self._contract):
            lacks = ", ".join(sorted(_members(self._contract) - set(dir(made))))
            raise ConfigError(
                self._setting, f"{name!r} is not a {self._contract.__name__}: it lacks {lacks}"
            )
        if not dataclasses.is_dataclass(made.options):
            raise ConfigError(self._setting, f"{name!r}: its options are no dataclass")
        found: S = made
        return found


def _members(contract: type[Any]) -> set[str]:
    return {name for name in dir(contract) if not name.startswith("_")}
