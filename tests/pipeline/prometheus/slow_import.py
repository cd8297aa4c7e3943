"""`counterpoise history import` by two moments at once, so that a test can kill it on its way.

After each line that it prints it waits for one from its standard input.
"""

import sys

from counterpoise.app.main import main
from counterpoise.pipeline.prometheus import import_run

_write = sys.stdout.write


def _write_and_wait(text: str) -> int:
    written = _write(text)
    if text.endswith("\n"):
        sys.stdout.flush()
        sys.stdin.readline()
    return written


if __name__ == "__main__":
    sys.stdout.write = _write_and_wait  # type: ignore[method-assign]
    import_run.POINTS_MOST = 2  # type: ignore[misc]
    import_run.REPORT_EVERY_S = 0.0  # type: ignore[misc]
    sys.exit(main(["history", "import", *sys.argv[1:]]))
