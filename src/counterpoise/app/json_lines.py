"""Answers each line of JSON with one line of JSON, for verbs that read from a pipe."""

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from counterpoise.app.errors import UserError
from counterpoise.load.fields import LoadDataError


def answer_lines(
    answer: Callable[[Any], Any],
    source: Iterable[str | bytes] | None = None,
    out: TextIO | None = None,
) -> None:
    """Parse each line as JSON, and write what `answer` returns for it as a line of JSON.

    Blank lines are skipped. ``source`` None is standard input, ``out`` None standard output. Raises
    `UserError`, which names the line, the field and what was expected there.
    """
    out = out or sys.stdout
    for number, line in enumerate(_standard_input() if source is None else source, start=1):
        text = _decoded(number, line)
        if not text.strip():
            continue
        value = _parsed(number, text)
        try:
            answered = answer(value)
        except LoadDataError as error:
            raise UserError(f"line {number}: {error}") from None
        out.write(json.dumps(answered, separators=(",", ":")) + "\n")
        out.flush()


def _standard_input() -> Iterable[str] | Iterable[bytes]:
    """Return standard input's lines as bytes, so that an error can name a line that is not UTF-8.

    If a test has replaced standard input by a text stream, the lines are texts.
    """
    return getattr(sys.stdin, "buffer", sys.stdin)


def _decoded(number: int, line: str | bytes) -> str:
    try:
        return (
            line if isinstance(line, str) else line.decode("utf-8-sig" if number == 1 else "utf-8")
        )
    except UnicodeDecodeError as error:
        raise UserError(f"line {number}, byte {error.start + 1}: not UTF-8") from None


def _parsed(number: int, text: str) -> Any:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(
            f"line {number}, column {error.colno}: expected one JSON object, {error.msg}"
        ) from None
    except RecursionError:
        raise UserError(f"line {number}: the JSON is nested too deeply") from None
    except ValueError:  # Python refuses integers of more than 4300 digits
        raise UserError(f"line {number}: a number has too many digits") from None
    if "\\u" in text or not text.isascii():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise UserError(
                f"line {number}: half of a surrogate pair (\\ud800 to \\udfff) is no character"
            ) from None
    return value
