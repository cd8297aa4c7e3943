"""The requests that `docs/REQUESTS.md` lists: what our verbs ask of a broker, and in what words."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "REQUESTS.md"
_ROW = re.compile(r"^\| `(GET|PUT) (\S+)` \| (\w+) \|", re.MULTILINE)
_PLACE = re.compile(r"\{(\w+)\}")
_PARTS = {"bundle": r"0x[0-9a-f]{8}_0x[0-9a-f]{8}", "broker": r"[^/?&]+(?::|%3A)[0-9]+"}


@dataclass(frozen=True, slots=True)
class RequestRow:
    """One row of the table: a method, and a path with its query, with names in braces."""

    method: str
    path: str
    of: str
    """Which brokers are asked: `both`, `modular`, `extensible`, or only `ours`."""

    def fits(self, method: str, path: str) -> bool:
        """Whether a request, as a broker gets it, is of this row."""
        return method == self.method and _pattern(self.path).fullmatch(path) is not None

    def named(self, **names: str) -> str:
        """The path of these names; `KeyError` for a name that is missing."""
        return _PLACE.sub(lambda place: names[place[1]], self.path)


@cache
def _pattern(path: str) -> re.Pattern[str]:
    parts = _PLACE.split(path)
    named = (f"(?:{_PARTS.get(name, '[^/?&]+')})" for name in parts[1::2])
    fixed = map(re.escape, parts[::2])
    return re.compile("".join(a + b for a, b in zip(fixed, (*named, ""), strict=True)))


@cache
def listed_requests() -> tuple[RequestRow, ...]:
    """Every row of the table."""
    return tuple(RequestRow(*found) for found in _ROW.findall(PAGE.read_text()))


def unlisted(requests: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of some requests, each a method and a path with its query, that are in no row."""
    rows = listed_requests()
    return [each for each in requests if not any(row.fits(*each) for row in rows)]
