"""Classifies the addresses on which servers listen."""

from ipaddress import ip_address


def is_loopback(address: str) -> bool:
    """Whether only clients on this machine can reach a server that listens on this address."""
    if address == "localhost":
        return True
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
