"""A fault that is planted by hand."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """``old`` occurs once in ``file`` (below ``src/counterpoise``); ``test`` must fail with ``new``."""

    what: str
    file: str
    old: str
    new: str
    test: str
    quick: bool = False
    """Whether it is planted whenever the suite runs: its test takes no second."""
