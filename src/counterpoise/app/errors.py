"""Errors that the user of the command line can correct."""

from counterpoise.names.errors import ExplainedError


class UserError(ExplainedError):
    """Something that the user can correct: a wrong option, a missing program, a busy port."""
