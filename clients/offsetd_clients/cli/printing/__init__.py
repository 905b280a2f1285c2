"""The output of commands: tables, lines, and their order."""
