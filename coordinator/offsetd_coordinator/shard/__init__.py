"""One partition of the offsets topic, which decides on requests and replays its log."""
