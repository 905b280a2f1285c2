"""One partition of the offsets topic: it decides, and it replays."""
