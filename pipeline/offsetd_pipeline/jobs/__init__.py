"""The jobs of `python -m offsetd_pipeline`, a module each: its command, and what it prints."""
