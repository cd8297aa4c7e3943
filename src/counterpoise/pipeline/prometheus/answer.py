"""Parses Prometheus's response to a range query into numbers by series and time.

A month of a large cluster is tens of gigabytes of JSON, so a response in Prometheus's own spelling
(no spaces, the values behind the labels) is cut at its quotation marks, and Arrow reads all of its
numbers at once. Any other spelling of the same JSON goes through a JSON parser.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
_HISTOGRAMS: Final = b',"histograms":['
_QUOTE: Final = ord('"')
_PREFIX_MOST: Final = 4096


class AnswerError(ValueError):
    """A response that is cut off or is not that of a range query; the message says which."""


@dataclass(frozen=True, slots=True)
class RangeAnswer:
    """The series that a range query returned."""

    labels: Sequence[bytes]
    """The labels of each series, as the JSON that was sent."""
    values: Floats
    """By series and moment; NaN where a series has none, or one that is no figure."""
    warnings: tuple[str, ...] = ()


def parse_answer(body: bytes, grid: TimeGrid) -> RangeAnswer:
    """A range query's values at the times of a grid; others are left out. Raises `AnswerError`."""
    found = _parse_plain(body, grid)
    return found if found is not None else _parse_any(body, grid)


def _parse_plain(body: bytes, grid: TimeGrid) -> RangeAnswer | None:
    """A response in Prometheus's own spelling; None for any other."""
    start = body.find(_RESULT, 0, _PREFIX_MOST) + len(_RESULT)
    prefix = body[:start]
    if start < len(_RESULT) or b'"resultType":"matrix"' not in prefix:
        return None
    labels, sections, end = _cut(body, start)
    if end < 0:
        return None
    try:
        warnings = _warnings(orjson.loads(prefix + b"]" + body[end:]))
        values = _values(sections, grid)
    except (pa.ArrowInvalid, ValueError, TypeError, AttributeError, OverflowError):
        return None  # the parser of any spelling says what is wrong
    return None if values is None else _sound(labels, values, warnings)


def _cut(body: bytes, at: int) -> tuple[list[bytes], list[bytes], int]:
    """Labels and values of each series, and where the list of series ends; -1 if irregular.

    No label can hold what the values begin with: quotation marks are escaped there.
    """
    labels: list[bytes] = []
    sections: list[bytes] = []
    if body.startswith(b"]", at):
        return labels, sections, at + 1
    while True:
        values = body.find(_VALUES[:-1], at)
        end = body.find(b"]]", values)
        # A series may have no values, or histograms alone: what is found is the next one's then.
        is_plain = body.startswith(_HEAD, at) and body.startswith(_VALUES, values)
        if values < 0 or end < 0 or not is_plain or body.find(_HISTOGRAMS, at, values) >= 0:
            return labels, sections, -1
        labels.append(body[at + len(_HEAD) : values])
        sections.append(body[values + len(_VALUES) : end])
        at = end + 4
        match body[end + 2 : at]:
            case b"},":
                continue
            case b"}]":
                return labels, sections, at
            case _:
                return labels, sections, -1


def _values(sections: Sequence[bytes], grid: TimeGrid) -> Floats | None:
    """The values of each series; a section is ``seconds,"value"],[seconds,"value"``."""
    table = np.full((len(sections), grid.count), np.nan)
    if not sections:
        return table
    text = b",".join(sections)
    if b"Inf" in text:
        sections = [each.replace(b"+Inf", b"NaN").replace(b"-Inf", b"NaN") for each in sections]
        text = b",".join(sections)
    quotes = np.flatnonzero(np.frombuffer(text, np.uint8) == _QUOTE)
    ends = np.cumsum([len(each) + 1 for each in sections])
    marks = np.searchsorted(quotes, ends)
    if len(quotes) % 2 or np.any(marks % 2) or len(text) >= np.iinfo(np.int32).max:
        return None
    figures = _figures(text, quotes)
    firsts = np.concatenate([[0], marks // 2])
    counts = np.diff(firsts)
    full = counts == grid.count
    full[full] = [_spans(sections[row], grid) for row in np.flatnonzero(full).tolist()]
    if full.all():
        return figures.reshape(table.shape)
    places = firsts[:-1][full, np.newaxis] + np.arange(grid.count)
    table[full] = figures[places]
    for row in np.flatnonzero(~full).tolist():
        pairs = orjson.loads(b"[[" + sections[row] + b"]]")
        _fill(table[row], pairs, grid)
    return table


def _figures(text: bytes, quotes: Integers) -> Floats:
    """The numbers between the quotation marks."""
    cuts = quotes.astype(np.int32)
    cuts[0::2] += 1
    pieces = pa.StringArray.from_buffers(len(cuts) - 1, pa.py_buffer(cuts), pa.py_buffer(text))
    between = pieces.take(pa.array(np.arange(0, len(cuts), 2, dtype=np.int32)))
    figures: Floats = between.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return figures


def _spans(section: bytes, grid: TimeGrid) -> bool:
    """Whether the values of a section are those of all the grid's times."""
    last = section.rfind(b"[") + 1
    first_s = float(section[: section.index(b",")])
    last_s = float(section[last : section.index(b",", last)])
    return grid.place(first_s * 1000) == 0 and grid.place(last_s * 1000) == grid.count - 1


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
    """Replace infinite and negative values by gaps."""
    wrong = np.isinf(values) | (values < 0)
    return RangeAnswer(labels, np.where(wrong, np.nan, values), warnings)


def _warnings(document: Any) -> tuple[str, ...]:
    found = document.get("warnings") or []
    return tuple(str(each) for each in found) if isinstance(found, list) else (str(found),)
