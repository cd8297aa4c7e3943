"""`python -m counterpoise` is the command `counterpoise`."""

import sys

from counterpoise.app.main import main

if __name__ == "__main__":
    sys.exit(main())
