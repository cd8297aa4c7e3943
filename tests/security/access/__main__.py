"""Ask every route as every role, of a real Pulsar and of ours: ``python -m tests.security.access``.

Needs the jars that `make conformance` fetches. Unexplained differences end it with
status 1. ``--record`` writes what Pulsar answered, which the suite holds our table against.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from bench._real_pulsar import standalone

from counterpoise import Cluster
from tests.conformance.jars import pulsar_lib
from tests.security.access.questions import ask_everything
from tests.security.access.vectors import EXPLAINED, differences, write
from tests.security.tokens import SETTINGS, token

PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="write Pulsar's answers down")
    record = parser.parse_args().record
    lib = pulsar_lib()
    if lib is None:
        return 3
    settings = {
        **SETTINGS,
        "transactionCoordinatorEnabled": True,
        "brokerClientAuthenticationPlugin": PLUGIN,
        "brokerClientAuthenticationParameters": f"token:{token('admin')}",
    }
    with tempfile.TemporaryDirectory() as folder:
        lower = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in settings.items()
        }
        headers = {"Authorization": f"Bearer {token('admin')}"}
        with standalone(lib, Path(folder), settings=lower, headers=headers) as pulsar:
            theirs = ask_everything(pulsar.admin_url)
    if record:
        write(theirs)
    with Cluster(brokers=1, config=settings) as cluster:
        ours = ask_everything(cluster.brokers[0].admin_url)
    found = differences(ours, theirs)
    for question, difference in found.items():
        print(question, "explained" if question in EXPLAINED else "", difference, sep="\t")
    strange = found.keys() - EXPLAINED.keys()
    print(f"{len(theirs)} routes, {len(found)} differ, {len(strange)} of them unexplained")
    return int(bool(strange))


if __name__ == "__main__":
    sys.exit(main())
