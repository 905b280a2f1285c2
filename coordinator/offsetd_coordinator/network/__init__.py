"""Ports, sockets, and the limits of connections."""
