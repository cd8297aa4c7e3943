"""Namespaces: their policies, and which topics exist."""
