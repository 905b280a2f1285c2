"""The PySpark pipeline. It comes with a later issue."""
