"""Histories made of what a Prometheus kept of a cluster's brokers and topics."""
