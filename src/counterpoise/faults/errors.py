"""Errors about faults that cannot be set, and recordings that cannot be replayed."""

from counterpoise.names.errors import ExplainedError


class InvalidFault(ValueError):
    """A fault that makes no sense; the message says why in a sentence."""


class InvalidRecording(ExplainedError):
    """A file that cannot be replayed; the message says why in a sentence."""
