"""Records what clients send to brokers, and replays it against other brokers."""
