"""Placement: chooses the broker for a bundle without an owner."""
