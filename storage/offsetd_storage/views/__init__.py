"""A data folder as seen by a reader that takes no lock."""
