"""The client for asyncio: the source of every call, from which `sync` is made."""
