"""Random and adversarial inputs, every one a function of a seeded generator alone."""
