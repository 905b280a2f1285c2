"""Classic groups that live: who is a member, in which generation, and who waits for what."""
