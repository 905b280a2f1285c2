"""What each page shows: functions that call the server and return plain values."""
