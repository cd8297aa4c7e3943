"""Pytest fixtures for tests that need a Pulsar cluster."""
