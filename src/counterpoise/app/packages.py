"""Turns a missing package of an extra into a sentence."""

import contextlib
from collections.abc import Iterator

from counterpoise.app.errors import UserError


@contextlib.contextmanager
def needed_by(what: str, extra: str) -> Iterator[None]:
    """Turn a missing optional package in a block of imports into a `UserError` that says what to
    install.

    A missing module of this package is a failure of the program, and is not caught.
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
