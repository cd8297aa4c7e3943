"""Broker processes on a real ZooKeeper under client load, and a random fault every few seconds."""
