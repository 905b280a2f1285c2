"""Checks a data folder from end to end, trusts nothing and changes nothing."""
