"""The sentences of decisions and rejections: templates filled with figures."""

import math
import string
from collections.abc import Mapping
from functools import lru_cache
from typing import Any


class _Formatter(string.Formatter):
    """`str.format` for figures that may be NaN or infinite, which it writes as words."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return _said(value, format_spec)


_FORMATTER = _Formatter()


def sentence(template: str, figures: Mapping[str, Any]) -> str:
    """Fill a template with figures; raises KeyError for a figure that is missing."""
    parts = _parts(template)
    if parts is None:
        return _FORMATTER.vformat(template, (), figures)
    return "".join(
        [
            literal if name is None else literal + _said(figures[name], spec)
            for literal, name, spec in parts
        ]
    )


@lru_cache(maxsize=256)
def _parts(template: str) -> tuple[tuple[str, str | None, str], ...] | None:
    """Split a template into its literal texts, each with the name of the figure after it; None if a
    field has more than a name.

    The result is cached: a large round fills a handful of templates tens of thousands of times.
    """
    parts = []
    for literal, name, spec, conversion in _FORMATTER.parse(template):
        if conversion or "{" in (spec or "") or not (name is None or name.isidentifier()):
            return None
        parts.append((literal, name, spec or ""))
    return tuple(parts)


def _said(value: Any, spec: str) -> str:
    if value is None:
        return "[unknown]"
    if isinstance(value, float):
        if math.isnan(value):
            return "[not a number]"
        if math.isinf(value):
            return "[infinite]" if value > 0 else "[minus infinity]"
    written = format(value, spec)
    # A negative figure that is rounded to 0 is written without its minus: no "-0.0%".
    if written.startswith("-") and not any(each in "123456789" for each in written):
        return written.lstrip("-")
    return written
