"""The backups that the nodes of a cluster make: one node at a time, of all nodes' parts."""
