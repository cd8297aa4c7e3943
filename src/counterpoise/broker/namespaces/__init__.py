"""Namespaces: their policies and their topics."""
