"""The doctor: what a broker.conf will really do, and where it contradicts itself."""
