"""Logs, metrics, health, and the cleaner's reports."""
