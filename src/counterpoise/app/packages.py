"""The one place where a missing package of an extra becomes a sentence."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from counterpoise.app.errors import UserError


@contextlib.contextmanager
def needed_by(what: str, extra: str) -> Iterator[None]:
    """Around imports that an extra of the package brings; raises `UserError` with what to install.

    A module of our own that is missing is a failure of ours, and stays one.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if not extra or (error.name or "").startswith("counterpoise"):
            raise
        raise UserError(
            f"{what} needs more packages ({error.name} is missing): "
            f"pip install 'counterpoise[{extra}]'"
        ) from None
