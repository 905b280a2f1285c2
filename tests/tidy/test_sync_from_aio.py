""".ci/sync_from_aio: words are exchanged, texts and the rest stay."""

from __future__ import annotations

import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "sync_from_aio"
spec = importlib.util.spec_from_loader(
    "sync_from_aio", SourceFileLoader("sync_from_aio", str(SCRIPT))
)
assert spec is not None
assert spec.loader is not None
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)


@pytest.mark.parametrize(
    ("aio", "sync"),
    [
        ("async def f(): return await g()", "def f(): return g()"),
        ("async with a as b: pass", "with a as b: pass"),
        ("[x async for x in y]", "[x for x in y]"),
        ("await (\n    f()\n)", "(\n    f()\n)"),
        ("class AsyncClient(_AsyncBase): ...", "class Client(_Base): ..."),
        ("def asynchronous(): ...", "def asynchronous(): ..."),
        ("from x.aio.y import AsyncIterator", "from x.sync.y import Iterator"),
        ("self.retry.call_async(f)", "self.retry.call(f)"),
        ("async def __aenter__(self): ...", "def __enter__(self): ..."),
        ("raise StopAsyncIteration", "raise StopIteration"),
        ('"await an AsyncClient"', '"await an Client"'),
        ("# await the AsyncClient", "# await the Client"),
        ("f('async')", "f('async')"),
    ],
)
def test_words_are_exchanged(aio: str, sync: str) -> None:
    assert script.made_sync(aio) == sync
