"""Makes histories of the metrics of brokers and topics that a Prometheus has kept."""
