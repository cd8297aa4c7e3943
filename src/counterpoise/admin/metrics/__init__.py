"""A broker's metrics for Prometheus, under Pulsar's names: one file for each kind of subject."""
