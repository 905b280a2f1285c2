"""The jobs of `python -m offsetd_pipeline`. Each module has a job's command and its output."""
