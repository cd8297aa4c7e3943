"""Imports histories from the metrics of brokers and topics in a Prometheus."""
