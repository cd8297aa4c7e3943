"""What is wrong with a fault that cannot be set."""


class InvalidFault(ValueError):
    """A fault that makes no sense; the message says why in a sentence."""
