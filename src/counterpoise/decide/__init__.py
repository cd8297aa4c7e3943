"""Room `decide`."""
