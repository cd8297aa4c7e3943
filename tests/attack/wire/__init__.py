"""Attacks on the binary protocol: valid sessions gone wrong, beside a client owed service."""
