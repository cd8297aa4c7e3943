"""What a person did that cannot work, said in one sentence."""

from counterpoise.names.errors import ExplainedError


class UserError(ExplainedError):
    """Something the person can put right: a wrong option, a missing program, a busy port."""
