"""The command that does the same as a form, quoted for a POSIX shell or bash."""

import shlex
from collections.abc import Iterable

from offsetd_clients.calling.connection import ADDRESS_DEFAULT
from offsetd_clients.web.changes.change import Change

SHOWN_CHARACTERS_MAX = 4000


def quoted(word: str) -> str:
    """A word for a shell. Characters that cannot be seen are escaped, as bash reads them."""
    if word.isprintable():
        return shlex.quote(word)
    escaped = "".join(map(_escaped, word))
    return f"$'{escaped}'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode())


def command_line(change: Change, address: str, reason: str) -> str:
    """The whole command, with the address and the reason if they are needed."""
    options = [*change.words]
    if change.takes_execute:
        options.append("--execute")
    if reason:
        options += ["--reason", reason]
    if address != ADDRESS_DEFAULT:
        options += ["--address", address]
    words = ["offsetd", *options, *_arguments(change.about)]
    command = " ".join(map(quoted, words))
    if change.piped:
        command = f"printf '%s\\n' {' '.join(map(quoted, change.piped.split(chr(10))))} | {command}"
    if len(command) > SHOWN_CHARACTERS_MAX:
        return f"offsetd … (the command has {len(command):,} characters, too many to show)"
    return command


def _arguments(names: Iterable[str]) -> list[str]:
    """Names behind the options. Without `--`, a name that begins with a dash is an option."""
    given = list(names)
    return ["--", *given] if any(name.startswith("-") for name in given) else given
