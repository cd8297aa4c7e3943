"""Commands that answer one line of JSON with one line of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from counterpoise.app.errors import UserError
from counterpoise.load.fields import LoadDataError


def answer_lines(
    answer: Callable[[Any], Any], source: Iterable[str] | None = None, out: TextIO | None = None
) -> None:
    """Read each line as JSON, answer it, write the answer; blank lines are passed over.

    Raises `UserError` naming the line, the field and what was expected there.
    """
    out = out or sys.stdout
    for number, text in enumerate(sys.stdin if source is None else source, start=1):
        if not text.strip():
            continue
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            raise UserError(
                f"line {number}, column {error.colno}: expected one JSON object, {error.msg}"
            ) from None
        except RecursionError:
            raise UserError(f"line {number}: the JSON is nested too deeply") from None
        try:
            answered = answer(value)
        except LoadDataError as error:
            raise UserError(f"line {number}: {error}") from None
        out.write(json.dumps(answered, separators=(",", ":")) + "\n")
        out.flush()
