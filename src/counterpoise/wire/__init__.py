"""Room `wire`."""
