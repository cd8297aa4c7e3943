"""Shedding: decides which bundles leave which brokers."""
