"""The setting of the transport."""

from __future__ import annotations

import attrs
from offsetd_storage.configuration.settings import listed


@attrs.frozen(kw_only=True)
class TransportSettings:
    """Settings of the transport, which reads and writes gRPC's bytes."""

    transport: str = listed(
        "grpcio",
        "transport",
        ("auto", "wire", "grpcio"),
        is_ours=True,
        reason="What speaks gRPC below the server: grpcio, or wire, which is faster for clients"
        " with a connection each and needs the extra wire. auto: wire if it is installed.",
    )
