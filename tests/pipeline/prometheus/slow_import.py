"""`counterpoise history import` by two moments at once, so that a test can kill it on its way."""

import sys

from counterpoise.app.main import main
from counterpoise.pipeline.prometheus import import_run

if __name__ == "__main__":
    import_run.POINTS_MOST = 2  # type: ignore[misc]
    import_run.REPORT_EVERY_S = 0.0  # type: ignore[misc]
    sys.exit(main(["history", "import", *sys.argv[1:]]))
