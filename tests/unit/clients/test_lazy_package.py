"""offsetd_clients: its public names are imported when they are first asked for."""

import subprocess
import sys

import offsetd_clients
import pytest
from lazy_packages import looked_up, told_to_types


def printed(program: str) -> list[str]:
    """What a fresh process prints, by words."""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return ended.stdout.split()


def test_a_name_is_imported_from_where_those_who_read_types_find_it() -> None:
    assert looked_up(offsetd_clients) == told_to_types(offsetd_clients)


def test_every_public_name_can_be_imported_and_is_listed() -> None:
    names = printed("from offsetd_clients import *\nprint(*globals())")
    assert set(names) >= set(offsetd_clients.__all__)
    before = printed("import offsetd_clients\nprint(*dir(offsetd_clients))")
    assert set(before) >= set(offsetd_clients.__all__)


def test_a_name_that_is_asked_for_twice_is_the_same() -> None:
    assert offsetd_clients.Group is offsetd_clients.Group
    assert "Group" in vars(offsetd_clients)


def test_another_name_is_an_error_as_of_any_module() -> None:
    with pytest.raises(AttributeError, match="'offsetd_clients' has no attribute 'Clint'"):
        getattr(offsetd_clients, "Clint")  # noqa: B009  Types know that it is not there.


def test_the_command_line_imports_nothing_of_the_client_library() -> None:
    names = printed(
        "import sys\n"
        "import offsetd_clients.cli.application, offsetd_coordinator.commands.serve\n"
        "print(*(name for name in sys.modules if name.startswith('offsetd_clients.')))"
    )
    assert {name.split(".")[1] for name in names} == {"cli"}
