"""Options of options: a strategy's settings hold other settings, and all come from one broker.conf.

``from_conf`` reads one flat dataclass; a strategy's options may also hold whole groups, such as
``ResourceWeights``, each a field whose default is the group with its own defaults.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TypeVar

from counterpoise.names.options import Option, from_conf, options_of

T = TypeVar("T")


def read_settings(
    cls: type[T], values: Mapping[str, str], lines: Mapping[str, int] | None = None
) -> T:
    """A strategy's options from broker.conf values; names it does not know are left alone.

    Raises ``ConfigError`` naming the option, its value and what is allowed.
    """
    flat = from_conf(cls, values, lines)
    groups = {
        name: read_settings(type(group), values, lines) for name, group in _groups(cls).items()
    }
    return dataclasses.replace(flat, **groups)  # type: ignore[type-var]


def settings_of(cls: type) -> Iterator[Option]:
    """Every option a strategy's options class knows, groups included."""
    for _, each in options_of(cls):
        yield each
    for group in _groups(cls).values():
        yield from settings_of(type(group))


def _groups(cls: type) -> dict[str, object]:
    return {
        each.name: each.default
        for each in dataclasses.fields(cls)
        if dataclasses.is_dataclass(each.default)
    }
