"""Reads Java properties, the format of ``broker.conf``, with each value's line number."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

_SEPARATOR = re.compile(r"(?<!\\)(?:\\\\)*(?P<cut>[ \t\f]*[=:][ \t\f]*|[ \t\f]+)")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PLAIN = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NAMED = {character: f"\\{letter}" for letter, character in _PLAIN.items()}


@dataclass(frozen=True, slots=True)
class Properties:
    """The contents of a properties file: each name's value, as text, and the line it begins on
    (from 1).

    Where a name occurs twice the last value counts; ``repeated`` has all lines of such a name.
    """

    values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    lines: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    repeated: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def overridden(self, settings: Mapping[str, str]) -> "Properties":
        """A copy in which ``settings`` replace or add values; these have no line number."""
        lines = {name: line for name, line in self.lines.items() if name not in settings}
        return Properties({**self.values, **settings}, lines, self.repeated)


def parse_properties(text: str) -> Properties:
    """Read the text of a properties file by ``java.util.Properties``' rules.

    ``#`` and ``!`` begin comments, ``=``, ``:`` or a blank ends a name, a backslash at the end of a
    line continues it, and ``\\t \\n \\r \\f \\uXXXX`` are escapes. No text is malformed: this
    raises no errors.
    """
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    seen: dict[str, list[int]] = {}
    for number, line in _logical_lines(text):
        name, value = _split(line)
        values[name] = value
        lines[name] = number
        seen.setdefault(name, []).append(number)
    repeated = {name: tuple(where) for name, where in seen.items() if len(where) > 1}
    return Properties(MappingProxyType(values), MappingProxyType(lines), MappingProxyType(repeated))


def format_properties(values: Mapping[str, str]) -> str:
    """The text of a properties file with these values, one a line."""
    return "".join(f"{_escape(name)}={_escape(value)}\n" for name, value in values.items())


def _escape(text: str) -> str:
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    if character in "\\=:#! ":
        return f"\\{character}"
    # A character that is not printable is escaped: some programs would end the line at it.
    if character.isprintable() or ord(character) > 0xFFFF:
        return character
    return f"\\u{ord(character):04x}"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    pending = ""
    begun = 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = raw.lstrip(" \t\f")
        if not pending:
            if not line or line[0] in "#!":
                continue
            begun = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield begun, pending + line
        pending = ""
    if pending:
        yield begun, pending


def _split(line: str) -> tuple[str, str]:
    found = _SEPARATOR.search(line)
    if not found:
        return _unescape(line), ""
    return _unescape(line[: found.start("cut")]), _unescape(line[found.end("cut") :])


def _unescape(text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _PLAIN.get(code, code)

    return _ESCAPE.sub(replace, text) if "\\" in text else text
