"""The one writer: dispatches requests, appends, flushes, and answers."""
