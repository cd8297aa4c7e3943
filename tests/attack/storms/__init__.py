"""What a client may say in good form, but a hundred thousand times at once."""
