"""The doctor: checks a broker.conf for contradictions and for settings without effect."""
