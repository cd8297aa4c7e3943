"""What an installation lacks, in a sentence."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from counterpoise.app.errors import UserError


@contextlib.contextmanager
def needed_by(what: str, extra: str = "pipeline") -> Iterator[None]:
    """Around imports that only an extra brings; raises `UserError` with what to install."""
    try:
        yield
    except ImportError as error:
        raise UserError(
            f"{what} needs more packages ({error.name} is missing): "
            f"pip install 'counterpoise[{extra}]'"
        ) from None
