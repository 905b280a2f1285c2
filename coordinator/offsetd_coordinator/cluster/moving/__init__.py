"""Moving a single server's folder into the topics of a cluster, and out of them again."""
