"""Apache's own clients for Python, Java and Go against our brokers: ``python -m tests.client``.

Fetches what is missing of them (the jars by Maven, the Go client by Go's module proxy, the Python
client's suite by git), builds what has to be built, and runs everything that drives them.
"""

import subprocess
import sys

import pytest

from tests.client import own_suite
from tests.client.official import driver, go_suite
from tests.conformance.jars import pulsar_lib


def main() -> int:
    """The exit status; what cannot be had is said, and its tests are skipped."""
    if pulsar_lib() is None:
        sys.stderr.write("without Maven there is no Java client\n")
    if driver.go_command(build=True) is None or not go_suite.build():
        sys.stderr.write("without Go there is no Go client\n")
    try:
        if not own_suite.is_there():
            own_suite.fetch()
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"without the Python client's own suite: {error}\n")
    return int(pytest.main(["-m", "client", "tests/client", "tests/security"]))


if __name__ == "__main__":
    sys.exit(main())
