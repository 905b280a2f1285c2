"""Backups of a data folder: pinned logs, what a target holds, checks, and restored folders."""
