"""Verification of a data folder from end to end, which trusts nothing and changes nothing."""
