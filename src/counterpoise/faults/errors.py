"""Errors about faults that cannot be set, and recordings that cannot be replayed."""

from counterpoise.names.errors import ExplainedError


class InvalidFault(ValueError):
    """A fault is unknown, or its values are invalid or contradict each other."""


class InvalidRecording(ExplainedError):
    """A file of recorded traffic cannot be replayed; the message says why."""
