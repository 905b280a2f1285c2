"""The client for threads: made from `aio`, but for what waits (`transport`, `concurrency`)."""
