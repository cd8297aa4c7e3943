"""Clusters on this machine: in this process, or as processes with a ZooKeeper and bookies."""
