"""All settings of broker.conf: which packages read each, and which have no effect."""
