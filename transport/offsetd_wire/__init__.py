"""A gRPC server for asyncio: HTTP/2 is native, sockets, TLS and handlers are Python's.

`Server` has the surface of `grpc.aio.Server`, and gives handlers a `Call` with the surface of
`grpc.aio.ServicerContext`. So the same handlers serve on both.
"""

from offsetd_wire.call import Call
from offsetd_wire.message_room import MessageRoom
from offsetd_wire.server import Server

__all__ = ["Call", "MessageRoom", "Server"]
