"""Answers ``counterpoise decide`` line by line: one JSON object in, one out."""
