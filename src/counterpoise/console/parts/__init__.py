"""The parts of the page; each shows one thing and changes in place."""
