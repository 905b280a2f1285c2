"""When offsets and groups expire: the rules, and what holds expiry back."""
