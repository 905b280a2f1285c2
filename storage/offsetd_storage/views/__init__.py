"""A data folder as a reader sees it that takes no lock."""
