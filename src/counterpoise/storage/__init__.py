"""Room `storage`."""
