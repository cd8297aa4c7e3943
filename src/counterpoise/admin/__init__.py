"""Room `admin`."""
