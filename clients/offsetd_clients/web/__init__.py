"""The pages of `offsetd web`: a client of a server or a cluster, for people who look."""
