"""Protobuf definitions of the binary protocol and the modules generated from them."""
