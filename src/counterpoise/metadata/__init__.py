"""Room `metadata`."""
