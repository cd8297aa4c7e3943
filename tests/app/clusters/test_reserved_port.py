"""Ports that are kept for servers that need their numbers in advance."""

import socket
import sys

import pytest

from counterpoise.app.clusters.reserved_port import ReservedPort
from counterpoise.app.errors import UserError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone keeps ports so")


def given(attempts: int) -> set[int]:
    """Ports that the system gives to servers and to clients that ask for any."""
    found = set[int]()
    with socket.create_server(("127.0.0.1", 0)) as server:
        for _ in range(attempts):
            with socket.socket() as asks:
                asks.bind(("127.0.0.1", 0))
                found.add(asks.getsockname()[1])
            with socket.create_connection(server.getsockname()) as client, server.accept()[0]:
                found.add(client.getsockname()[1])
    return found


def test_the_system_gives_a_reserved_port_to_no_other_process() -> None:
    reserved = [ReservedPort() for _ in range(200)]
    try:
        numbers = {each.number for each in reserved}
        assert len(numbers) == 200
        assert not given(1_000) & numbers
    finally:
        for each in reserved:
            each.release()


def test_a_server_has_its_reserved_port_again_and_again_and_no_other_beside_it() -> None:
    reserved = ReservedPort()
    for _ in range(2):
        with socket.create_server(("127.0.0.1", reserved.number)) as server:
            with socket.create_connection(server.getsockname()):
                pass
            with pytest.raises(UserError, match=rf"port {reserved.number} .* in use: end"):
                ReservedPort(reserved.number)
    reserved.release()
    with socket.socket() as strict:
        strict.bind(("127.0.0.1", reserved.number))
