"""Rate limits of a broker: the sources of their rates, and their enforcement."""
