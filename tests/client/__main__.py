"""Apache's own clients for Python, Java and Go against our brokers: ``python -m tests.client``.

Fetches what is missing of them (the jars by Maven, the Go client by Go's module proxy, the Python
client's suite by git), builds what has to be built, and runs everything that drives them, their own
suites for Go, Python and Java, and the examples for Go, Java and Node.
"""

import argparse
import os
import subprocess
import sys

import pytest

from tests.app.faults import test_faults_again
from tests.client import own_suite, test_examples, whole_suites
from tests.client.official import driver, go_suite, java_suite
from tests.conformance.jars import pulsar_lib


def main() -> int:
    """The exit status; what cannot be had is said, and its tests are skipped."""
    parser = argparse.ArgumentParser(prog="python -m tests.client", description=__doc__)
    parser.add_argument(
        "--repetitions", type=int, metavar="N", help="only a test with five faults, so often"
    )
    args = parser.parse_args()
    if args.repetitions is not None:
        command = [sys.executable, "-m", "pytest", "-q", str(test_faults_again.__file__)]
        environ = {**os.environ, test_faults_again.VARIABLE: str(args.repetitions)}
        return subprocess.run(command, env=environ, check=False).returncode
    if pulsar_lib() is None:
        sys.stderr.write("without Maven there is no Java client\n")
    if not java_suite.build():
        sys.stderr.write("without Maven and a JDK there are no tests of the Java client\n")
    if driver.go_command(build=True) is None or not go_suite.build():
        sys.stderr.write("without Go there is no Go client\n")
    try:
        if not own_suite.is_there():
            own_suite.fetch()
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"without the Python client's own suite: {error}\n")
    os.environ[test_examples.RUN] = "1"
    status = int(pytest.main(["-m", "client", "tests/client", "tests/security"]))
    whole = [*(("go", "go-admin") if go_suite.is_there() else ())]
    whole += ["python"] if own_suite.is_there() else []
    whole += ["java"] if java_suite.is_there() else []
    return whole_suites.main(whole) or status


if __name__ == "__main__":
    sys.exit(main())
