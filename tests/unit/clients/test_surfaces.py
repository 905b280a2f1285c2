"""The two clients have one surface: the same names, arguments and values; `await` is the rest."""

import inspect
import re
from typing import Any

import offsetd_clients
import pytest
from offsetd_clients.calling.methods import METHODS

PAIRS = [
    (getattr(offsetd_clients, name), getattr(offsetd_clients, name.removeprefix("Async")))
    for name in offsetd_clients.__all__
    if getattr(offsetd_clients, name).__module__.startswith("offsetd_clients.aio.")
]


def surface(kind: type) -> dict[str, Any]:
    """Public names and their signatures, with what differs between the two taken away."""
    found = {}
    for name, value in inspect.getmembers(kind):
        if name.startswith("_") and name != "__init__":
            continue
        if callable(value):
            text = str(inspect.signature(value))
            text = re.sub(r"\bAsync(?=[A-Z])", "", text)
            text = re.sub(
                r"\boffsetd_clients\.(aio|sync)\.|\b(_?asyncio|concurrent)[\w.]*\.", "", text
            )
            found[name] = text.replace("str | collections.abc.Awaitable[str]", "str")
        else:
            found[name] = type(value).__name__
    return found


def test_there_are_two_of_each() -> None:
    assert {sync.__name__ for _, sync in PAIRS} >= {"OffsetClient", "OffsetWatch"}


@pytest.mark.parametrize(("aio", "sync"), PAIRS)
def test_both_have_the_same_names_with_the_same_arguments(aio: type, sync: type) -> None:
    assert surface(aio) == surface(sync)


@pytest.mark.parametrize(("aio", "sync"), PAIRS)
def test_both_promise_the_same(aio: type, sync: type) -> None:
    for name in surface(aio):
        told = [(getattr(kind, name).__doc__ or "") for kind in (aio, sync)]
        assert re.sub(r"\bAsync(?=[A-Z])", "", told[0]) == told[1]


def test_every_call_of_the_contract_is_there() -> None:
    snake = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in METHODS}
    others = {
        "commit_offsets": "commit",
        "stream_commits": "commit",
        "fetch_offsets": "fetch",
        "check": "is_serving",
        "stream_backup": "stream_backups",
    }
    calls = set(surface(offsetd_clients.OffsetClient))
    assert {others.get(name, name) for name in snake} <= calls
