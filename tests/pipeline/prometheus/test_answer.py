"""Answers of range queries: the same numbers of any spelling, and nothing of a broken one."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from counterpoise.pipeline.prometheus.answer import AnswerError, parse_answer
from counterpoise.pipeline.prometheus.time_grid import TimeGrid

GRID = TimeGrid(1_700_000_000_000, 15_000, 5)
SECONDS = [1_700_000_000 + 15 * step for step in range(5)]
VALUES = st.floats(allow_nan=True, allow_infinity=True)
NAMES = st.text(max_size=12) | st.sampled_from(['","values":[[', "]]", '"}', "\\", "\u2028"])
SERIES = st.tuples(
    st.dictionaries(NAMES, NAMES, max_size=3),
    st.dictionaries(st.sampled_from(range(-1, 6)), VALUES, max_size=7),
)


def text_of(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return ("+Inf" if value > 0 else "-Inf") if math.isinf(value) else repr(value)


def body_of(series: list[tuple[dict[str, str], dict[float, float]]], *, compact: bool) -> bytes:
    result = [
        {
            "metric": labels,
            "values": [[SECONDS[0] + 15 * step, text_of(values[step])] for step in sorted(values)],
        }
        for labels, values in series
    ]
    document = {
        "status": "success",
        "data": {"resultType": "matrix", "result": result},
        "warnings": ["beware"],
    }
    separators = (",", ":") if compact else (", ", ": ")
    return json.dumps(document, separators=separators, ensure_ascii=not compact).encode(
        errors="replace"
    )


@given(st.lists(SERIES, max_size=5))
@example([({}, {step: 1.0 + step for step in (0, 1, 2, 3, 5)})])
@example([({}, {step: 1.0 + step for step in (-1, 1, 2, 3, 4)})])
@example([({}, {step: 1.0 + step for step in (0, 0.2, 1, 2, 3, 4)})])
def test_numbers_do_not_depend_on_the_spelling(
    series: list[tuple[dict[str, str], dict[float, float]]],
) -> None:
    expected = np.full((len(series), 5), np.nan)
    for row, (_, values) in enumerate(series):
        for step, value in values.items():
            if step in range(5) and math.isfinite(value) and value >= 0:
                expected[row, int(step)] = value
    for compact in (True, False):
        answer = parse_answer(body_of(series, compact=compact), GRID)
        np.testing.assert_array_equal(answer.values, expected)
        found = [json.loads(each) for each in answer.labels]
        if not compact:
            assert found == [labels for labels, _ in series]
        assert len(found) == len(series)
        assert answer.warnings == ("beware",)


@given(st.lists(SERIES, min_size=1, max_size=3), st.data())
def test_an_answer_that_is_cut_off_is_none(
    series: list[tuple[dict[str, str], dict[float, float]]], data: st.DataObject
) -> None:
    body = body_of(series, compact=True)
    kept = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(AnswerError):
        parse_answer(body[:kept], GRID)


@pytest.mark.parametrize(
    "body",
    [
        b"null",
        b"[]",
        b"<html>",
        b'{"status":"error","error":"no"}',
        b'{"status":"success","data":{"resultType":"vector","result":[]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"values":[]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,2,3]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1700000000,"x"]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[["1e999","1"]]}]}}',
    ],
)
def test_what_is_no_answer_is_a_sentence(body: bytes) -> None:
    with pytest.raises(AnswerError):
        parse_answer(body, GRID)


@pytest.mark.parametrize("histograms", ["alone", "behind", "before"])
def test_a_histogram_is_no_value_and_the_series_behind_it_has_its_own(histograms: str) -> None:
    histogram = b'"histograms":[[1700000000,{"count":"1","buckets":[[0,"1","2","3"]]}]]'
    value = b'"values":[[1700000000,"7"]]'
    own = {"alone": [histogram], "behind": [value, histogram], "before": [histogram, value]}
    first = b",".join([b'{"metric":{"a":"b"}', *own[histograms]]) + b"}"
    last = b'{"metric":{"c":"d"},' + value + b"}"
    body = b'{"status":"success","data":{"resultType":"matrix","result":[%b,%b]}}' % (first, last)
    found = parse_answer(body, GRID)
    assert found.values[0, 0] == 7.0 or histograms == "alone"
    assert np.isnan(found.values).sum() == (9 if histograms == "alone" else 8)
    assert found.values[1, 0] == 7.0
    assert [json.loads(each) for each in found.labels] == [{"a": "b"}, {"c": "d"}]
