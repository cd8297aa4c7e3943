"""Room `pipeline`."""
