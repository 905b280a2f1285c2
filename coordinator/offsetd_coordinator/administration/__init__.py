"""Changes by administrators: audited, durable, then applied."""
