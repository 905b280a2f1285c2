"""Recovery: what a folder holds after any stop, and what is repaired or quarantined."""
