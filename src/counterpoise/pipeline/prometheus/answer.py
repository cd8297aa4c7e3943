"""Parses Prometheus's response to a range query into numbers by series and time.

A month of a large cluster is tens of gigabytes of JSON, so a response in Prometheus's own spelling
(no spaces, the values behind the labels) is cut at its quotation marks, and Arrow reads all of its
numbers at once. Any other spelling of the same JSON goes through a JSON parser.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from counterpoise.load.rates import Floats
from counterpoise.load.view import Integers
from counterpoise.pipeline.prometheus.time_grid import TimeGrid

_RESULT: Final = b'"result":['
_HEAD: Final = b'{"metric":'
_VALUES: Final = b',"values":[['
_END: Final = b"]]},"
_NEXT: Final = _END + _HEAD
_LAST: Final = b"]]}]"
_HISTOGRAMS: Final = b',"histograms":['
_QUOTE: Final = ord('"')
_PREFIX_MOST: Final = 4096


class AnswerError(ValueError):
    """A response that is cut off or is not that of a range query; the message says which."""


@dataclass(frozen=True, slots=True)
class RangeAnswer:
    """The series that a range query returned."""

    labels: Sequence[bytes]
    """The labels of each series as JSON, as they were received."""
    values: Floats
    """Values by series and moment; NaN where a series has none, or one that is not a number."""
    warnings: tuple[str, ...] = ()


def parse_answer(body: bytes, grid: TimeGrid) -> RangeAnswer:
    """Parse the response to a range query. Raises `AnswerError`.

    Values at times that are not in the grid are left out.
    """
    found = _parse_plain(body, grid)
    return found if found is not None else _parse_any(body, grid)


def _parse_plain(body: bytes, grid: TimeGrid) -> RangeAnswer | None:
    """A response in Prometheus's own spelling; None for any other."""
    start = body.find(_RESULT, 0, _PREFIX_MOST) + len(_RESULT)
    prefix = body[:start]
    if start < len(_RESULT) or b'"resultType":"matrix"' not in prefix:
        return None
    found = _cut(body, start)
    if found is None:
        return None
    try:
        warnings = _warnings(orjson.loads(prefix + b"]" + body[found.end :]))
        values = _values(body, found, grid)
    except (pa.ArrowInvalid, ValueError, TypeError, AttributeError, OverflowError):
        return None  # the slower parser of all valid JSON finds and reports the error
    return None if values is None else _sound(found.labels, values, warnings)


@dataclass(slots=True)
class _Sections:
    """Where in a response the values of each series are, as offsets.

    A section reads ``seconds,"value"],[seconds,"value"``.
    """

    labels: list[bytes] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    end: int = 0
    """The offset of the end of the list of series."""


def _cut(body: bytes, at: int) -> _Sections | None:
    """Find the labels and values of each series; None if the response is spelled in another way.

    No label can contain the searched texts, since quotation marks are escaped in labels.
    """
    found = _Sections(end=at + 1)
    if body.startswith(b"]", at):
        return found
    if not body.startswith(_HEAD, at):
        return None
    while True:
        values = body.find(_VALUES, at)
        text = body[at + len(_HEAD) : values]
        # If a series has no values, or only histograms, the search found those of a later series.
        if values < 0 or _HEAD in text or _HISTOGRAMS in text:
            return None
        found.labels.append(text)
        found.starts.append(values + len(_VALUES))
        at = body.find(b"{", values)
        if not body.startswith(_NEXT, at - len(_END)):
            break
        found.ends.append(at - len(_END))
    end = body.find(_LAST, values)
    found.ends.append(end)
    found.end = end + len(_LAST)
    return found if end >= 0 else None


def _values(body: bytes, found: _Sections, grid: TimeGrid) -> Floats | None:
    table = np.full((len(found.labels), grid.count), np.nan)
    if len(body) >= np.iinfo(np.int32).max:
        return None
    quotes = np.flatnonzero(np.frombuffer(body, np.uint8) == _QUOTE)
    firsts, ends = np.searchsorted(quotes, found.starts), np.searchsorted(quotes, found.ends)
    full = ends - firsts == 2 * grid.count
    whole = _Spans(body, grid)
    full[full] = [
        whole.is_grid(found.starts[row], found.ends[row]) for row in np.flatnonzero(full).tolist()
    ]
    marks = firsts[full, np.newaxis] + np.arange(2 * grid.count)
    table[full] = _figures(body, quotes[marks.ravel()]).reshape(-1, grid.count)
    for row in np.flatnonzero(~full).tolist():
        pairs = orjson.loads(b"[[" + body[found.starts[row] : found.ends[row]] + b"]]")
        _fill(table[row], pairs, grid)
    return table


def _figures(text: bytes, quotes: Integers) -> Floats:
    """The numbers that are quoted in `text`; `quotes` has the offsets of all quotation marks."""
    if not len(quotes):
        return np.zeros(0)
    cuts = quotes.astype(np.int32)
    cuts[0::2] += 1
    pieces = pa.StringArray.from_buffers(len(cuts) - 1, pa.py_buffer(cuts), pa.py_buffer(text))
    between = pieces.take(pa.array(np.arange(0, len(cuts), 2, dtype=np.int32)))
    figures: Floats = between.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return figures


class _Spans:
    """Checks whether sections begin and end at the times of the grid.

    Times that were parsed are cached, since nearly all sections have the same.
    """

    def __init__(self, body: bytes, grid: TimeGrid) -> None:
        self._body = body
        self._grid = grid
        self._places: dict[bytes, int] = {}

    def is_grid(self, start: int, end: int) -> bool:
        """Whether a section, which has as many values as the grid has times, has one for each time.

        Prometheus returns values at the times of the query only, one for each, so it suffices to
        compare the first and the last.
        """
        body = self._body
        first = body[start : body.index(b",", start)]
        last = body.rindex(b"[", start - 1, end) + 1
        return self._place(first) == 0 and (
            self._place(body[last : body.index(b",", last)]) == self._grid.count - 1
        )

    def _place(self, seconds: bytes) -> int:
        if seconds not in self._places:
            self._places[seconds] = self._grid.place(float(seconds) * 1000)
        return self._places[seconds]


def _fill(row: Floats, pairs: Sequence[Any], grid: TimeGrid) -> None:
    for moment_s, value in pairs:
        if (place := grid.place(float(moment_s) * 1000)) >= 0:
            row[place] = float(value)


def _parse_any(body: bytes, grid: TimeGrid) -> RangeAnswer:
    try:
        document = orjson.loads(body)
        if document["status"] != "success":
            raise AnswerError(str(document.get("error", "it reports no success")))
        kind, result = document["data"]["resultType"], document["data"]["result"]
        if kind != "matrix":
            raise AnswerError(f"it is a {kind}, and a range query gives a matrix")
        values = np.full((len(result), grid.count), np.nan)
        for row, series in enumerate(result):
            # A histogram has no values of its own.
            _fill(values[row], series.get("values", ()), grid)
        labels = [orjson.dumps(series["metric"]) for series in result]
    except orjson.JSONDecodeError as error:
        raise AnswerError(f"it is cut off, or no JSON ({error})") from None
    except AnswerError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise AnswerError(f"it is no answer of Prometheus ({error})") from None
    return _sound(labels, values, _warnings(document))


def _sound(labels: Sequence[bytes], values: Floats, warnings: tuple[str, ...]) -> RangeAnswer:
    """Make an answer in which infinite and negative values are replaced by NaN."""
    wrong = np.isinf(values) | (values < 0)
    return RangeAnswer(labels, np.where(wrong, np.nan, values), warnings)


def _warnings(document: Any) -> tuple[str, ...]:
    found = document.get("warnings") or []
    return tuple(str(each) for each in found) if isinstance(found, list) else (str(found),)
