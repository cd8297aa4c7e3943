"""Become another program that dies when its parent does; run as a script, by its path.

``python die_with_parent.py PARENT_PID PROGRAM ARGUMENT…`` asks the kernel to kill this process
when its parent thread ends, even when the parent is killed with -9, and then becomes PROGRAM.
The request survives ``execve``. It is a program of its own because running Python between fork
and exec (``preexec_fn``) can deadlock in a process with threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    """Run a program that is killed when its parent ends: ``PARENT_PID PROGRAM ARGUMENT…``."""
    parent, program = int(argv[1]), argv[2:]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if os.getppid() != parent:
            # The parent died before prctl, so the kernel will send no signal.
            sys.exit(1)
    os.execvp(program[0], program)  # noqa: S606  the program is our own caller's


if __name__ == "__main__":
    main(sys.argv)
