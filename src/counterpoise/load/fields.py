"""Reads and writes dataclasses as JSON, with errors that name the field.

Used for load reports and for what strategies remember. Each class is a frozen dataclass. Its JSON
names are its attribute names in camel case, in the order of declaration (:func:`json_name`
overrides one); a field that is missing takes the dataclass's default, as Jackson does for Pulsar's
classes, and an unknown one is ignored. Numbers that JSON cannot write travel as Jackson writes
them: the strings ``"NaN"``, ``"Infinity"``, ``"-Infinity"``.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from functools import cache
from typing import Any, Self, TypeVar, cast

T = TypeVar("T")

_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class LoadDataError(ValueError):
    """Load data that cannot be read: which field, and what was expected there.

    ``field`` is a path such as ``brokerData['b1:8080'].localData.cpu.limit``.
    """

    def __init__(self, field: str, expected: str, got: object = MISSING) -> None:
        self.field = field
        shown = "nothing" if got is MISSING else _shown(got)
        super().__init__(f"{field}: expected {expected}, got {shown}")


_INT64 = 2**63


def _shown(value: object) -> str:
    text = f"{type(value).__name__} {value!r}" if not isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def json_name(name: str, default: Any = MISSING) -> Any:
    """Declare a dataclass field whose JSON name is ``name`` instead of its own in camel case."""
    return dataclasses.field(default=default, metadata={"json": name})


def read_number(value: object, path: str) -> float:
    """Check that a JSON value is a number; raises `LoadDataError` naming ``path``."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise LoadDataError(path, "a number that a double can hold", value) from None
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    raise LoadDataError(path, "a number", value)


def read_integer(value: object, path: str) -> int:
    """Check that a JSON value is whole, as 3 or ``3.0``; raises `LoadDataError` naming ``path``."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole or (isinstance(value, float) and value.is_integer()):
        number = int(value)  # type: ignore[call-overload]
        if not -_INT64 <= number < _INT64:
            raise LoadDataError(path, "a whole number of 64 bits", value)
        return int(number)
    raise LoadDataError(path, "a whole number", value)


def read_times(data: Mapping[str, Any], name: str, within: str = "") -> dict[str, int]:
    """The JSON object under ``name``, of names and times in milliseconds; empty if absent.

    ``within``: where ``data`` stands, as in ``memory.``, for the path in `LoadDataError`.
    """
    path = f"{within}{name}"
    times = read_object(data.get(name, {}), path)
    return {each: read_integer(when, f"{path}[{each!r}]") for each, when in times.items()}


def read_text(value: object, path: str) -> str:
    """Check that a JSON value is a string; raises `LoadDataError` naming ``path``."""
    if isinstance(value, str):
        return value
    raise LoadDataError(path, "a string", value)


def read_boolean(value: object, path: str) -> bool:
    """Check that a JSON value is ``true`` or ``false``; raises `LoadDataError` naming ``path``."""
    if isinstance(value, bool):
        return value
    raise LoadDataError(path, "true or false", value)


def read_object(value: object, path: str) -> Mapping[str, Any]:
    """Check that a JSON value is an object; raises `LoadDataError` naming ``path``."""
    if isinstance(value, dict):
        return value
    raise LoadDataError(path, "an object", value)


def read_texts(value: object, path: str) -> tuple[str, ...]:
    """Check that a JSON value is an array of strings; raises `LoadDataError` naming ``path``."""
    if not isinstance(value, (list, tuple)):
        raise LoadDataError(path, "an array of strings", value)
    return tuple(read_text(item, f"{path}[{i}]") for i, item in enumerate(value))


def write_number(value: float) -> float | str:
    """A double as Jackson writes it: non-finite values as strings."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


_Reader = Callable[[object, str], Any]
_SCALARS: dict[object, _Reader] = {
    float: read_number,
    int: read_integer,
    str: read_text,
    bool: read_boolean,
}


def _reader(hint: Any) -> _Reader:
    """Return the function that reads a field of this type from JSON."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        inner = _reader(next(a for a in arguments if a is not type(None)))
        return lambda value, path: None if value is None else inner(value, path)
    if origin is tuple and arguments == (str, ...):
        return read_texts
    if origin is tuple:
        each = _reader(arguments[0])
        return lambda value, path: _read_list(value, path, each)
    if origin is Mapping:
        element = _reader(arguments[1])
        return lambda value, path: {
            key: element(item, f"{path}[{key!r}]") for key, item in read_object(value, path).items()
        }
    if isinstance(hint, type) and issubclass(hint, tuple):
        parts = [_reader(each) for each in typing.get_type_hints(hint).values()]
        return lambda value, path: hint(*_read_parts(value, path, parts))
    if dataclasses.is_dataclass(hint):
        return lambda value, path: from_json(hint, value, path)  # type: ignore[arg-type]
    return lambda value, _path: value


def _read_list(value: object, path: str, each: _Reader) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise LoadDataError(path, "an array", value)
    return tuple(each(item, f"{path}[{i}]") for i, item in enumerate(value))


def _read_parts(value: object, path: str, parts: Sequence[_Reader]) -> Iterator[Any]:
    """The fields of a named tuple, which is an array."""
    if not isinstance(value, (list, tuple)) or len(value) != len(parts):
        raise LoadDataError(path, f"an array of {len(parts)}", value)
    return (parts[i](item, f"{path}[{i}]") for i, item in enumerate(value))


@cache
def _layout(cls: Hashable) -> tuple[tuple[str, str, _Reader, bool], ...]:
    """For each field of a class: its name, its name in JSON, its reader, whether it is required."""
    kind = cast("type[Any]", cls)
    hints = typing.get_type_hints(kind)
    rows = []
    for field in dataclasses.fields(kind):
        name = field.metadata.get("json") or _camel(field.name)
        required = field.default is MISSING and field.default_factory is MISSING
        rows.append((field.name, name, _reader(hints[field.name]), required))
    return tuple(rows)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def from_json(cls: type[T], value: object, path: str = "") -> T:
    """Build the dataclass ``cls`` from a parsed JSON object.

    Raises :class:`LoadDataError` naming the field and what was expected.
    """
    data = read_object(value, path or cls.__name__)
    prefix = f"{path}." if path else ""
    arguments = {}
    for attribute, name, reader, required in _layout(cast("Hashable", cls)):
        if required or data.get(name) is not None:
            arguments[attribute] = reader(data.get(name, MISSING), prefix + name)
    return cls(**arguments)


def to_json(value: Any) -> Any:
    """The JSON form of a dataclass: its fields in order, without optional ones that are None."""
    if isinstance(value, float):
        return write_number(value)
    if dataclasses.is_dataclass(value):
        return {
            name: to_json(item)
            for attribute, name, _, _ in _layout(cast("Hashable", type(value)))
            if (item := getattr(value, attribute)) is not None
        }
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    return value


class JsonObject:
    """Base of dataclasses that are read from and written as Pulsar's JSON for load reports."""

    __slots__ = ()

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        """Read an object of this class; raises `LoadDataError`, which names the field."""
        return from_json(cls, value, path or cls.__name__)

    def to_json(self) -> dict[str, Any]:
        """This object as JSON values."""
        written: dict[str, Any] = to_json(self)
        return written


class JsonMapping(JsonObject):
    """A `JsonObject` whose only field is a mapping; its JSON form is that mapping itself."""

    __slots__ = ()

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        """Read an object of this class from a JSON mapping; raises `LoadDataError`."""
        ((attribute, _, reader, _),) = _layout(cast("Hashable", cls))
        return cls(**{attribute: reader(value, path or cls.__name__)})

    def to_json(self) -> dict[str, Any]:
        """The mapping itself, as JSON values."""
        (written,) = super().to_json().values()
        mapping: dict[str, Any] = written
        return mapping
