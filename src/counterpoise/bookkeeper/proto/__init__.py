"""Protobuf definitions of what BookKeeper and Pulsar keep, and the modules generated from them."""
