"""Who calls, and what a caller may do: identities and rules, pure."""
