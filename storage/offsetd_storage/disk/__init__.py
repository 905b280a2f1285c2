"""The disk: one door for all files, and a simulated disk for tests."""
