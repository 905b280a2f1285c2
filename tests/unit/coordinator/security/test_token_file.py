"""The file of tokens: its format, what is wrong with a content, and changes of the file."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from offsetd_coordinator.security import token_file
from offsetd_coordinator.security.token_file import (
    InvalidTokenFile,
    UnknownToken,
    access_flaw,
    create_token,
    parse_token_file,
    read_token_file,
    revoke_tokens,
    token_file_content,
)
from offsetd_coordinator.security.tokens import StoredToken, new_token, salted_hash

if TYPE_CHECKING:
    from collections.abc import Callable

NOW_MS = 1_795_208_775_341
SECRET = "a" * 43
ID, SALT = "8a52d13c5ee80f17", bytes(range(16))
TABLE = f"""
[[token]]
id = "{ID}"
principal = "User:alice"
salt = "{SALT.hex()}"
hmac_sha256 = "{salted_hash(SALT, SECRET).hex()}"
created = 2026-11-20T21:06:15.341Z
"""
OTHER_ID = "00000000000000ff"
OTHER = TABLE.replace(ID, OTHER_ID)


def content(*tables: str, version: str = "version = 1\n") -> bytes:
    return (version + "".join(tables)).encode()


def flaw(text: bytes) -> str:
    with pytest.raises(InvalidTokenFile) as caught:
        parse_token_file(text)
    assert salted_hash(SALT, SECRET).hex() not in str(caught.value)
    return str(caught.value)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.toml"


def test_the_documented_format_is_read() -> None:
    expires = 'expires = 2026-11-20T22:06:16+01:00\nnote = "the billing job"\n'
    table = parse_token_file(content(TABLE, expires, OTHER))
    first, second = table.tokens
    assert (first.created_ms, first.expires_ms) == (NOW_MS, NOW_MS + 659)
    assert (first.note, second.note, second.expires_ms) == ("the billing job", "", None)
    identity = table.identify(f"offsetd_{OTHER_ID}_{SECRET}", NOW_MS)
    assert identity == ("User:alice", OTHER_ID, None)
    assert table.holds(ID)
    assert table.holds(OTHER_ID)


def test_a_byte_order_mark_is_passed_over() -> None:
    assert parse_token_file(b"\xef\xbb\xbf" + content(TABLE)).holds(ID)


def test_a_time_at_the_end_of_all_calendars_is_read_and_written() -> None:
    last = "expires = 9999-12-31T23:59:59.999-12:00\n"
    tokens = parse_token_file(content(TABLE, last)).tokens
    assert b"expires = 9999-12-31T23:59:59.999Z" in token_file_content(tokens)


def test_a_file_of_no_tokens_is_one() -> None:
    assert parse_token_file(content()).tokens == ()
    assert parse_token_file(token_file_content([])).tokens == ()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('id = "8A52D13C5EE80F17"', "`id` is not 16 lower-case hexadecimal digits"),
        ("id = 12", "`id` is not 16"),
        ('principal = "alice"', "'alice' is not User:NAME"),
        ('principal = "User:ANONYMOUS"', "not one caller"),
        ("principal = 3", "are strings"),
        ("note = 3", "are strings"),
        ('salt = "00"', "`salt` is not 32"),
        ('hmac_sha256 = "zz"', "`hmac_sha256` is not 64"),
        ("created = 2026-11-20T21:06:15", "`created` is no time"),
        ("created = 2026-11-20", "`created` is no time"),
        ("created = true", "`created` is no time"),
        ("created = 1969-11-20T21:06:15Z", "`created` is no time"),
        ('expires = "2026-11-20T21:06:15Z"', "`expires` is no time"),
        ("expire = 2026-11-20T21:06:15Z", "there is no key 'expire'"),
        ("principal", "Expected '='"),
        ("created = 2026-13-45T00:00:00Z", "Expected newline"),
        ('note = "', "Illegal character"),
        ("note = '\\u0000'\nnote = ''", "Cannot overwrite"),
        ("", "is missing"),
    ],
)
def test_what_is_wrong_in_a_table_is_told_with_its_number(line: str, told: str) -> None:
    key = line.partition(" ")[0] or "salt"
    lines = [each for each in TABLE.splitlines() if not each.startswith(f"{key} ")]
    text = flaw(content(OTHER, "\n".join([*lines, line, ""]), TABLE.replace(ID, "1" * 16)))
    assert text.startswith("table 2")
    assert told in text
    if told == "is missing":
        assert text == f"table 2 (token {ID}): `salt` is missing"


def test_a_file_that_ends_in_a_table_names_it() -> None:
    whole = content(OTHER, TABLE)
    assert flaw(whole[: whole.rindex(b"created") + 9]).startswith("table 2: ")
    assert flaw(b'version = "\n' + content(TABLE)).startswith("before the first table: ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "there is no `version = 1`"),
        (content(TABLE, version=""), "there is no `version = 1`"),
        (content(TABLE, version="version = true\n"), "there is no `version = 1`"),
        (content(TABLE, version="version = 0\n"), "there is no `version = 1`"),
        (content("new = 1\n", version="version = 2\n"), "version 2, and this program reads 1"),
        (content("tokens = 1\n"), "no key 'tokens'"),
        (content("token = 1\n"), "each begins with [[token]]"),
        (content(TABLE.replace("[[token]]", "[token]")), "each begins with [[token]]"),
        (content("token = [1]\n"), "table 1: expected a table, `[[token]]`"),
        (content(TABLE, OTHER, TABLE), f"table 3 (token {ID}): table 1 has the same id"),
        (content(TABLE) + b"\xff", "it is not UTF-8"),
        (content("token = " + "[" * 5000 + "]" * 5000), "nested too deeply"),
        (content("token = " + "9" * 5000), "integer string conversion"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(text: bytes, told: str) -> None:
    assert told in flaw(text)


def test_a_created_token_is_read_again(path: Path) -> None:
    note = 'a "note" \\ of\ttwo\nlines, größe \x00'
    token, stored = create_token(path, "User:alice", now_ms=NOW_MS, expires_ms=NOW_MS + 1)
    second, noted = create_token(path, "User:CN=bob,O=x", now_ms=NOW_MS, note=note)
    table = read_token_file(path)
    assert table.tokens == (stored, noted)
    assert table.identify(token, NOW_MS) == ("User:alice", stored.token_id, NOW_MS + 1)
    assert table.identify(second, NOW_MS) == ("User:CN=bob,O=x", noted.token_id, None)
    for each in (token, second):
        assert each.split("_", 2)[2].encode() not in path.read_bytes()


def test_a_revoked_token_is_gone_and_the_others_stay(path: Path) -> None:
    made = [create_token(path, f"User:{name}", now_ms=NOW_MS) for name in "abcd"]
    stored = [each for _, each in made]
    ids = [each.token_id for each in stored]
    assert revoke_tokens(path, [ids[2], ids[0], ids[2]]) == [stored[2], stored[0]]
    table = read_token_file(path)
    assert table.tokens == (stored[1], stored[3])
    valid = [table.identify(token, NOW_MS) is not None for token, _ in made]
    assert valid == [False, True, False, True]


def test_an_unknown_id_changes_nothing(path: Path) -> None:
    _, stored = create_token(path, "User:alice", now_ms=NOW_MS)
    before = path.read_bytes(), path.stat().st_ino
    with pytest.raises(UnknownToken) as caught:
        revoke_tokens(path, [stored.token_id, OTHER_ID])
    assert caught.value.args == (OTHER_ID,)
    assert (path.read_bytes(), path.stat().st_ino) == before
    assert list(path.parent.iterdir()) == [path]


def test_what_is_not_there_or_no_file_of_tokens_is_not_changed(path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        revoke_tokens(path, [ID])
    assert missing.value.filename == str(path)
    with pytest.raises(FileNotFoundError) as nowhere:
        create_token(path / "below" / "t.toml", "User:alice", now_ms=NOW_MS)
    assert nowhere.value.filename == str(path / "below")
    path.write_text("my diary\n")
    with pytest.raises(InvalidTokenFile):
        create_token(path, "User:alice", now_ms=NOW_MS)
    assert path.read_text() == "my diary\n"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o177])
def test_only_the_owner_of_a_new_file_can_read_it(path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        create_token(path, "User:alice", now_ms=NOW_MS)
    finally:
        os.umask(before)
    assert mode_of(path) == 0o600
    assert access_flaw(path) == ""


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        (0o600, ""),
        (0o640, ""),
        (0o644, "all users can read it"),
        (0o660, "other users can write it"),
        (0o602, "other users can write it"),
    ],
)
def test_a_change_keeps_the_mode_and_others_access_is_told(
    path: Path, mode: int, told: str
) -> None:
    _, stored = create_token(path, "User:alice", now_ms=NOW_MS)
    path.chmod(mode)
    create_token(path, "User:bob", now_ms=NOW_MS)
    revoke_tokens(path, [stored.token_id])
    assert mode_of(path) == mode
    assert access_flaw(path).startswith(told)
    assert bool(access_flaw(path)) == bool(told)


def test_a_change_keeps_the_owner_of_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_token(path, "User:alice", now_ms=NOW_MS)
    stranger = path.stat().st_uid + 7
    if os.geteuid() == 0:
        os.chown(path, stranger, 7)
        create_token(path, "User:bob", now_ms=NOW_MS)
        assert (path.stat().st_uid, path.stat().st_gid) == (stranger, 7)

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    # As for somebody who may not give the file to its owner: the server could not read it.
    real = Path.stat
    monkeypatch.setattr(os, "fchown", refuse)
    monkeypatch.setattr(Path, "stat", lambda each, **_: owned_by(stranger + 1, real(each)))
    before = path.read_bytes()
    with pytest.raises(PermissionError) as caught:
        create_token(path, "User:carol", now_ms=NOW_MS)
    monkeypatch.undo()
    assert caught.value.filename == str(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def owned_by(user: int, found: os.stat_result) -> os.stat_result:
    fields = list(found)
    fields[stat.ST_UID] = user
    return os.stat_result(fields)


def test_a_symbolic_link_stays_one(path: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "t.toml"
    path.symlink_to(target)
    create_token(path, "User:alice", now_ms=NOW_MS)
    create_token(target, "User:bob", now_ms=NOW_MS)
    assert path.is_symlink()
    assert len(read_token_file(path).tokens) == 2
    assert sorted(tmp_path.iterdir()) == [target.parent, path]


def test_what_a_killed_command_left_does_no_harm(path: Path) -> None:
    create_token(path, "User:alice", now_ms=NOW_MS)
    left = path.with_name(".tokens.toml.part")
    left.write_bytes(b"half a file" * 1000)
    left.chmod(0o644)
    create_token(path, "User:bob", now_ms=NOW_MS)
    assert len(read_token_file(path).tokens) == 2
    assert (mode_of(path), list(path.parent.iterdir())) == (0o600, [path])


@pytest.mark.parametrize("failing", ["fsync", "ftruncate", "fchmod"])
def test_a_failed_write_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    create_token(path, "User:alice", now_ms=NOW_MS)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="Input/output error"):
        create_token(path, "User:bob", now_ms=NOW_MS)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    create_token(path, "User:bob", now_ms=NOW_MS)


def test_the_whole_file_is_durable_before_it_has_its_name(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        opened = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        whole = opened.is_dir() or len(read_token_file(opened).tokens) == 1
        steps.append(f"sync {opened.name} {whole}")
        fsync(descriptor)

    def renamed(part: Path, target: Path) -> Path:
        steps.append(f"rename {target.name}")
        return replace(part, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    create_token(path, "User:alice", now_ms=NOW_MS)
    assert steps == [
        "sync .tokens.toml.part True",
        "rename tokens.toml",
        f"sync {path.parent.name} True",
    ]


CHANGES = """
import sys
from pathlib import Path
from offsetd_coordinator.security.token_file import create_token, revoke_tokens

path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    token, _ = create_token(path, f"User:{name}", now_ms=number)
    _, spare = create_token(path, f"User:{name}-spare", now_ms=number)
    revoke_tokens(path, [spare.token_id])
    print(token, flush=True)
"""


def test_commands_at_the_same_time_lose_nothing(path: Path) -> None:
    count = 15
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CHANGES, path, name, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("alice", "bob", "carol")
    ]
    for each in processes:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in processes:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    made = [each.communicate(timeout=120)[0].split() for each in processes]
    assert [each.returncode for each in processes] == [0, 0, 0]
    table = read_token_file(path)
    assert len(table.tokens) == 3 * count
    for name, tokens in zip(("alice", "bob", "carol"), made, strict=True):
        assert len(tokens) == count
        found = [table.identify(token, NOW_MS) for token in tokens]
        assert {None if each is None else each.principal for each in found} == {f"User:{name}"}
    assert list(path.parent.iterdir()) == [path]


def test_a_reader_never_sees_half_a_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_token(path, "User:alice", now_ms=NOW_MS)
    seen: list[int] = []

    def looking(call: Callable[..., object]) -> Callable[..., object]:
        def looked(*arguments: object) -> object:
            seen.append(len(read_token_file(path).tokens))
            result = call(*arguments)
            seen.append(len(read_token_file(path).tokens))
            return result

        return looked

    for name in ("ftruncate", "fchmod", "fsync"):
        monkeypatch.setattr(os, name, looking(getattr(os, name)))
    create_token(path, "User:bob", now_ms=NOW_MS)
    assert seen == sorted(seen)
    assert set(seen) == {1, 2}


def test_text_that_is_not_utf_8_is_refused_before_anything_is_written(path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        create_token(path, "User:\udcff", now_ms=NOW_MS)
    assert list(path.parent.iterdir()) == []


def test_the_content_has_a_line_for_each_value() -> None:
    _, stored = new_token("User:alice", now_ms=NOW_MS, expires_ms=NOW_MS + 1, note='"x"')
    text = token_file_content(
        [
            stored,
            StoredToken(
                token_id=ID, principal="User:b", salt=SALT, secret_hash=bytes(32), created_ms=0
            ),
        ]
    ).decode()
    assert text.startswith("# `offsetd admin tokens` writes this file.")
    assert 'note = "\\"x\\""' in text.splitlines()
    assert "expires = 2026-11-20T21:06:15.342Z" in text.splitlines()
    assert text.endswith("created = 1970-01-01T00:00:00.000Z\n")
    assert token_file.VERSION == 1
