"""How settings are declared: frozen dataclasses whose fields know their names in broker.conf.

A package writes::

    @dataclass(frozen=True, slots=True)
    class SplitOptions:
        max_topics: int = option(
            1000, "loadBalancerNamespaceBundleMaxTopics", "topics", low=1, dynamic=True
        )
        '''A bundle with more topics is split.'''

and reads a ``broker.conf`` with ``from_conf(SplitOptions, values)``. The string below a field says
what the setting is for; listings of settings read it from the source.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from counterpoise.names.errors import ExplainedError

T = TypeVar("T")

_KEY = "counterpoise.option"
_WHOLE = re.compile(r"[-+]?[0-9]{1,19}")

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class ConfigError(ExplainedError, ValueError):
    """A setting has an invalid value or an unknown name.

    The message has the setting's name, what is wrong, and the line of the file if there is one.
    """

    def __init__(self, name: str, problem: str, line: int | None = None) -> None:
        self.name = name
        self.problem = problem
        self.line = line
        where = f"line {line}: " if line is not None else ""
        super().__init__(f"{where}{name}: {problem}")


@dataclass(frozen=True, slots=True)
class Option:
    """Describes one setting: its Pulsar name, unit, purpose, default and allowed values."""

    conf: str
    """The name in broker.conf, the admin API and ``--set``."""
    default: Any
    kind: type
    """bool, int, float, str or tuple (a comma-separated list)."""
    unit: str
    why: str
    """What the setting is for; empty if the docstring below the dataclass's field says so."""
    low: float | None
    high: float | None
    choices: tuple[str, ...]
    dynamic: bool
    """Whether Pulsar lets it change while the broker runs."""
    deprecated: bool
    blank_is_none: bool = False
    """Whether a blank value is parsed as None instead of the default."""
    secret: bool = False
    """Whether its value is a secret: never listed and never part of an error message."""

    @property
    def range_text(self) -> str:
        """The allowed values as text for a person."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind is bool:
            return "true or false"
        if self.kind not in (int, float):
            return "a comma-separated list" if self.kind is tuple else "text"
        number = "a whole number" if self.kind is int else "a number"
        low = None if self.low is None else f"{self.low:g}" if self.kind is float else int(self.low)
        high = None if self.high is None else int(self.high) if self.kind is int else self.high
        if low is not None and high is not None:
            return f"{number} from {low} to {high}"
        if low is not None:
            return f"{number}, at least {low}"
        return number if high is None else f"{number}, at most {high}"

    def parse(self, text: str, line: int | None = None) -> Any:
        """Parse a value of a configuration file; blank gives the default. Raises `ConfigError`."""
        text = text.strip()
        if not text:
            return None if self.blank_is_none else self.default
        try:
            value = _READERS[self.kind](text)
        except ValueError:
            raise ConfigError(self.conf, f"{text!r} is not {self.range_text}", line) from None
        return self.check(value, line)

    def check(self, value: Any, line: int | None = None) -> Any:
        """Return the value if it is allowed; raises `ConfigError` otherwise."""
        if self.choices and value not in self.choices:
            raise ConfigError(self.conf, f"{value!r} is not {self.range_text}", line)
        if self.kind in (int, float) and value is not None:
            too_low = self.low is not None and not value >= self.low
            too_high = self.high is not None and not value <= self.high
            if too_low or too_high or value != value:
                raise ConfigError(self.conf, f"{value} is not {self.range_text}", line)
        return value


def _read_bool(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


def _read_int(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _read_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


_READERS: Mapping[type, Callable[[str], Any]] = {
    bool: _read_bool,
    int: _read_int,
    float: float,
    str: str,
    tuple: _read_list,
}


def option(
    default: Any,
    conf: str,
    unit: str = "",
    *,
    why: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    dynamic: bool = False,
    deprecated: bool = False,
    kind: type | None = None,
    blank_is_none: bool = False,
    secret: bool = False,
) -> Any:
    """Declare a dataclass field that is a setting with Pulsar's name ``conf``; the rest as in
    `Option`.

    Without ``low`` and ``high`` a whole number has the range of Java's int; for the range of a
    long pass ``high=INT64_MAX``.
    """
    kind = kind or type(default)
    if kind is int and high is None:
        high = INT32_MAX
    if kind is int and low is None:
        low = -(high or 0) - 1
    made = Option(
        conf,
        default,
        kind,
        unit,
        why,
        low,
        high,
        choices,
        dynamic,
        deprecated,
        blank_is_none,
        secret,
    )
    return dataclasses.field(default=default, metadata={_KEY: made})


def options_of(cls: type) -> Iterator[tuple[str, Option]]:
    """Yield the field name and `Option` of each setting of a dataclass; nested ones are omitted."""
    for each in dataclasses.fields(cls):
        if found := each.metadata.get(_KEY):
            yield each.name, found


def sections_of(cls: type) -> Iterator[tuple[str, type]]:
    """Yield the field name and class of each field that holds a nested dataclass of settings."""
    for each in dataclasses.fields(cls):
        made = each.default_factory
        kind = type(each.default) if made is dataclasses.MISSING else made
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            yield each.name, kind


def all_options(cls: type) -> Iterator[Option]:
    """Yield every setting of a dataclass, including those of nested dataclasses."""
    for _, each in options_of(cls):
        yield each
    for _, inner in sections_of(cls):
        yield from all_options(inner)


def from_conf(cls: type[T], values: Mapping[str, str], lines: Mapping[str, int] | None = None) -> T:
    """Build the settings object ``cls`` from broker.conf values; names that it does not declare are
    ignored.

    ``lines`` gives the line of each name, for the error. Raises `ConfigError`.
    """
    lines = lines or {}
    read: dict[str, Any] = {}
    for name, each in options_of(cls):
        if each.conf in values:
            read[name] = each.parse(values[each.conf], lines.get(each.conf))
    for name, inner in sections_of(cls):
        read[name] = from_conf(inner, values, lines)
    return cls(**read)


def with_dynamic(settings: T, values: Mapping[str, str]) -> T:
    """A copy of the settings with new ``values`` for those that may change at run time.

    Names that are not dynamic, or not declared here, are ignored. Raises `ConfigError`.
    """
    changed: dict[str, Any] = {}
    for name, each in options_of(type(settings)):
        if each.dynamic and each.conf in values:
            changed[name] = each.parse(values[each.conf])
    for name, _ in sections_of(type(settings)):
        changed[name] = with_dynamic(getattr(settings, name), values)
    return dataclasses.replace(settings, **changed)  # type: ignore[type-var]


def check_ranges(settings: object) -> None:
    """Raise `ConfigError` if a settings object built in code has a value that is not allowed."""
    for name, each in options_of(type(settings)):
        each.check(getattr(settings, name))
    for name, _ in sections_of(type(settings)):
        check_ranges(getattr(settings, name))
