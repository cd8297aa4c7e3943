"""Room `names`."""
