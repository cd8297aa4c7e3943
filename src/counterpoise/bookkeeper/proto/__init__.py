"""Protobuf definitions of what BookKeeper and Pulsar store, and the modules generated from them."""
