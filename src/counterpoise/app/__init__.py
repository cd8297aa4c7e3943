"""The command line, and the composition root: the only place where objects are wired together."""
