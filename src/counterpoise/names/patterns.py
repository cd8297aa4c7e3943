"""Regular expressions from clients and settings, matched by RE2 in linear time.

RE2 is what Pulsar's own brokers use for topic patterns. It has no backtracking, so no expression
can keep a broker busy; in return it has neither back-references nor look-around.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import re2

from counterpoise.names.errors import InvalidName

_MEMORY_MAX = 1 << 20
"""Bytes that one compiled expression may take."""


class Pattern(Protocol):
    """A compiled regular expression."""

    def fullmatch(self, text: str) -> object | None:
        """Match the whole text; None if it does not match."""


@lru_cache(maxsize=1024)
def compile_pattern(text: str) -> Pattern:
    """Compile a regular expression; raises `InvalidName`, which says what is wrong with it."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_MAX
    try:
        compiled: Pattern = re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else error
        problem = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidName(text, f"not a regular expression: {problem}") from None
    return compiled


def matches_any(patterns: Sequence[str], text: str) -> bool:
    """Whether the whole text matches one of the regular expressions.

    A malformed expression matches nothing. It is refused when a person sets it, but if one is
    stored nevertheless, for example by another program, decisions must not fail because of it.
    """
    return any(_matches(pattern, text) for pattern in patterns)


def _matches(pattern: str, text: str) -> bool:
    try:
        return compile_pattern(pattern).fullmatch(text) is not None
    except InvalidName:
        return False
