"""Sentences of decisions and rejections: templates filled with figures, whatever these are."""

import math
import string
from collections.abc import Mapping
from typing import Any


class _Formatter(string.Formatter):
    """`str.format`, for figures that may be no numbers: those are said in words."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return "[unknown]"
        if isinstance(value, float):
            if math.isnan(value):
                return "[not a number]"
            if math.isinf(value):
                return "[infinite]" if value > 0 else "[minus infinity]"
        written: str = super().format_field(value, format_spec)
        # A little less than nothing is nothing: no "-0.0%".
        return written.lstrip("-") if not any(each in "123456789" for each in written) else written


_FORMATTER = _Formatter()


def sentence(template: str, figures: Mapping[str, Any]) -> str:
    """The template with its figures; raises KeyError for one that is not there."""
    return _FORMATTER.vformat(template, (), figures)
