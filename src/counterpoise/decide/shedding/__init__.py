"""Shedding: which bundles leave which brokers."""
