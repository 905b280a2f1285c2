"""Classic groups with members: membership, generations, rebalances and waiting calls."""
