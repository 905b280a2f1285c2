"""Recovery of a data folder after any stop: survey, repair, quarantine."""
