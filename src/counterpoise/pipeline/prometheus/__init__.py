"""Imports histories from the metrics that a Prometheus keeps of brokers and topics."""
