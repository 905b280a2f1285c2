"""What several benchmarks use: servers, generators of load and of logs, and rounds."""
