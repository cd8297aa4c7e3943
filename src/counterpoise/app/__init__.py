"""Room `app`."""
