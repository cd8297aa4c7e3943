"""All settings: who reads each, and what is accepted without effect."""
