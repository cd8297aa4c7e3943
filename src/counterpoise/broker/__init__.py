"""Room `broker`."""
