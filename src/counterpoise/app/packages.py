"""Turns the import error of an optional package into a sentence that says what to install."""

import contextlib
from collections.abc import Iterator

from counterpoise.app.errors import UserError


@contextlib.contextmanager
def needed_by(what: str, extra: str) -> Iterator[None]:
    """Turn a failed import during the block into a `UserError` that says what to install.

    ``what`` needs the packages of the extra named ``extra``. A missing module of this package is a
    failure of the program, and its error is not changed.
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
