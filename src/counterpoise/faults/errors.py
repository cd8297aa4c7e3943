"""Errors about faults that cannot be set, and recordings that cannot be replayed."""

from counterpoise.names.errors import ExplainedError


class InvalidFault(ValueError):
    """A fault's values are wrong or contradict each other; the message says how."""


class InvalidRecording(ExplainedError):
    """A file of recorded traffic cannot be replayed; the message says why."""
