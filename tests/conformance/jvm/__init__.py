"""The judge's side: a child process per Pulsar version, Pulsar's classes driven through JPype."""
