"""The arguments of each verb of the command line, one file per verb."""
