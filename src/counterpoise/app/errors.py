"""What a person did that cannot work, said in one sentence."""


class UserError(Exception):
    """Something the person can put right: a wrong option, a missing program, a busy port.

    The message is one sentence that says what was wrong, where, and what to do. The command line
    prints it without a traceback and exits with status 2.
    """
