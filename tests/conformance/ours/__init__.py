"""The product's answers to the judge's cases, through the same JSON as the command line."""
