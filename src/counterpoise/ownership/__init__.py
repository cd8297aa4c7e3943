"""Room `ownership`."""
