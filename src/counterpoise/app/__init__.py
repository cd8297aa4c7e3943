"""The command line, and the only package that wires objects of the others together."""
