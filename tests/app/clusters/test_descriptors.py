"""Connections never take the descriptors that a broker's own files need."""

import subprocess
import sys
from dataclasses import replace

import pytest

from counterpoise.app.clusters.descriptors import FOR_FILES, within
from counterpoise.broker.config import BrokerConfig

CONFIG = BrokerConfig()


@pytest.mark.parametrize("descriptors", [256, 1024, 4096, 20_000, 1 << 20])
def test_all_connections_together_leave_room_for_files(descriptors: int) -> None:
    found = within(CONFIG, descriptors)
    clients, web = found.connection.connections_max, found.http_connections_max
    assert min(clients, web) > descriptors // 100 or web == CONFIG.http_connections_max
    assert clients + web <= descriptors - min(FOR_FILES, descriptors // 2)


def test_what_the_operator_said_holds_where_there_is_room() -> None:
    said = replace(
        CONFIG, http_connections_max=7, connection=replace(CONFIG.connection, connections_max=9)
    )
    assert within(said, 1024) == said


def test_a_broker_takes_what_it_may_have() -> None:
    program = (
        "import resource; from counterpoise.app.clusters.descriptors import raised_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))\n"
        "print(raised_limit(), resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "300 (300, 300)\n"
