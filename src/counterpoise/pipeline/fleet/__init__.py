"""Several clusters side by side: what each is doing, asked of all at once."""
