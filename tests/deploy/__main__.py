"""What is deployed: ``python -m tests.deploy`` builds Helm where there is none, and the image."""

import os
import sys

import pytest

from tests.deploy.helm import helm
from tests.deploy.test_images import BUILT


def main() -> int:
    """The exit status."""
    if helm(build=True) is None:
        sys.stderr.write("without Helm or Go no chart is rendered\n")
    os.environ[BUILT] = "1"
    return int(pytest.main(["tests/deploy", "-s"]))


if __name__ == "__main__":
    sys.exit(main())
