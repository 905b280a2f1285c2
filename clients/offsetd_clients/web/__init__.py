"""The pages of `offsetd web`: a client of a server or a cluster, for users of a browser."""
