"""Addresses to listen on."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(address: str) -> bool:
    """Whether an address to listen on is within reach of this machine alone."""
    if address == "localhost":
        return True
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
