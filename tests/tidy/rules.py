"""The house rules, as functions from a source file to what is wrong with it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 500
COLUMNS_MAX = 100
UNIT_TESTS_OF_A_FOLDER_MAX = 20

BANNED_WORDS = frozenset(
    ["data", "info", "manager", "util", "utils", "helper", "helpers", "misc", "stuff", "common"]
)
CONTRACT_NAME = "server_info"  # GetServerInfo is fixed.
# What the standard library calls: asyncio.Protocol and html.parser.HTMLParser.
LIBRARY_NAMES = frozenset(["data_received", "handle_data"])

# Only these touch the disk, `offsetd_storage.disk.files` for everything that has to be durable.
DISK_ALLOWED = {
    "storage/offsetd_storage/disk/files.py": "the one door to the disk",
    "coordinator/offsetd_coordinator/network/process_memory.py": "what /proc says of this process",
    "coordinator/offsetd_coordinator/network/sockets.py": "duplicates sockets' descriptors",
    "coordinator/offsetd_coordinator/state/anonymous_memory.py": "maps memory, never a file",
    "storage/offsetd_storage/kernels/code_files.py": "machine code, which can be made again",
    "storage/offsetd_storage/kernels/linking.py": "looks at which Numba there is",
    "clients/offsetd_clients/cli/printing/terminal.py": "points standard output at the null device",
    "coordinator/offsetd_coordinator/commands/serve.py": "reads the operator's settings",
    "coordinator/offsetd_coordinator/configuration/cluster_settings.py": "reads files of secrets",
    "coordinator/offsetd_coordinator/security/certificates.py": "reads an operator's certificates",
    "coordinator/offsetd_coordinator/security/token_file.py": "the tokens that an operator makes",
    "coordinator/offsetd_coordinator/security/watched_file.py": "reads files of an operator again",
    "clients/offsetd_clients/calling/key_pair_check.py": "gives `ssl` a key as a file in memory",
    "transport/offsetd_wire/sockets.py": "takes away the socket of a process that has ended",
    "clients/offsetd_clients/migration/durable_files.py": "plans and journals of migrations",
    "clients/offsetd_clients/installation.py": "finds programs, and how offsetd was installed",
    "pipeline/offsetd_pipeline/files.py": "what jobs leave: reports, manifests",
    "clients/offsetd_clients/cli/arguments/user_files.py": "files that a user names",
    "clients/offsetd_clients/cluster_backup.py": "the certificate and the token of an operator",
    "clients/offsetd_clients/cli/doctor/doctor_command.py": "asks whether a folder is there",
    "clients/offsetd_clients/cli/doctor/machine_checks.py": "looks at mounts and room",
    "clients/offsetd_clients/cli/doctor/server_facts.py": "asks whether a folder is there",
}
DISK_MODULES = frozenset(
    ["fcntl", "fileinput", "glob", "mmap", "shelve", "shutil", "sqlite3", "tempfile"]
)
DISK_CALLS = re.compile(
    r"open|io\.open|np\.(fromfile|load|memmap|save|savez)"
    r"|os\.(access|chmod|chown|close|copy_file_range|dup2?|fchmod|fdatasync|fdopen|fsync|ftruncate"
    r"|link|listdir|lseek|lstat|makedirs|mkdir|open|posix_fadvise|posix_fallocate|preadv?|pwritev?"
    r"|readv?|remove|removedirs|renames?|replace|rmdir|scandir|sendfile|stat|statvfs|symlink|sync"
    r"|truncate|unlink|utime|walk|writev?|path\.(exists|getmtime|getsize|isdir|isfile|lexists))"
)
# Methods of pathlib.Path and NumPy. Those that `Files` has too take an argument more there.
DISK_METHODS = re.compile(
    r"chmod|glob|hardlink_to|is_dir|is_file|iterdir|lstat|mkdir|read_text|rglob|rmdir|samefile"
    r"|symlink_to|tofile|touch|walk|write_bytes|write_text"
)
DISK_METHODS_OF_NO_ARGUMENT = frozenset(["exists", "read_bytes", "stat", "unlink"])

MACHINE_PATH = re.compile(r"(?<![\w.~/-])/(?:" + "work|root|tmp" + r")/\w")


def words_of(name: str) -> list[str]:
    """The words of a snake_case or CamelCase name, in small letters; the contract's names aside."""
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]
    joined = "_".join(words)
    return [] if joined in LIBRARY_NAMES else joined.replace(CONTRACT_NAME, "").split("_")


def size_problems(source: str) -> Iterator[str]:
    """Files of at most 500 lines of at most 100 columns, functions of at most 60 lines."""
    lines = source.splitlines()
    if len(lines) > FILE_LINES_MAX:
        yield f"{len(lines)} lines"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX:
            yield f"line {number}: {len(line)} columns"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield f"line {node.lineno}: {node.name} has {length} lines"


def name_problems(path: str, source: str) -> Iterator[str]:
    """No module, class or function is called by a word that says nothing.

    Tests are sentences, and CamelCase functions have their names from the gRPC contract.
    """
    for part in PurePath(path).with_suffix("").parts:
        yield from (f"{part} says {word!r}" for word in words_of(part) if word in BANNED_WORDS)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        is_class = isinstance(node, ast.ClassDef)
        if node.name.startswith("test_") or (not is_class and node.name[0].isupper()):
            continue
        for word in words_of(node.name):
            if word in BANNED_WORDS:
                yield f"line {node.lineno}: {node.name} says {word!r}"


def room_problems(names: Iterable[str]) -> Iterator[str]:
    """Unit tests stand in the rooms of what they test, and a folder has few enough to find one.

    `names` are all files: a room is a folder with modules, `coordinator/offsetd_coordinator/shard`.
    """
    paths = [PurePath(name).parts for name in names if name.endswith(".py")]
    rooms = {(path[0], path[2]) for path in paths if len(path) > 3}
    tests = Counter(path[:-1] for path in paths if path[:2] == ("tests", "unit"))
    packages = {package for package, _ in rooms}
    for folder, count in tests.items():
        if count > UNIT_TESTS_OF_A_FOLDER_MAX:
            yield f"{'/'.join(folder)} has {count} files"
        if len(folder) > 3 and folder[2] in packages and folder[2:4] not in rooms:
            yield f"{'/'.join(folder)}: {folder[2]} has no room {folder[3]}"


def disk_problems(source: str) -> Iterator[str]:
    """Nothing opens, reads, writes or renames a file other than through a `Files`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported = [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")[0]
            imported = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        else:
            imported = []
        for name in imported:
            if name in DISK_MODULES or DISK_CALLS.fullmatch(name):
                yield f"line {node.lineno}: imports {name}"  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and (called := _disk_call(node)):
            yield f"line {node.lineno}: calls {called}"


def print_problems(source: str) -> Iterator[str]:
    """What is not a command's answer goes to the log, and a command has a terminal for it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _dotted(node.func) == "print":
            yield f"line {node.lineno}: calls print"


def machine_problems(text: str) -> Iterator[str]:
    """No file names a place on the machine it was written on."""
    for number, line in enumerate(text.splitlines(), 1):
        if MACHINE_PATH.search(line):
            yield f"line {number}: {line.strip()[:80]}"


def _dotted(node: ast.expr) -> str:
    """`os.path.exists` for that expression; an empty string for one that is no dotted name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := _dotted(node.value)):
        return f"{base}.{node.attr}"
    return ""


def _disk_call(call: ast.Call) -> str:
    """What of the disk a call touches, or an empty string."""
    name = _dotted(call.func)
    if DISK_CALLS.fullmatch(name):
        return name
    if not isinstance(call.func, ast.Attribute):
        return ""
    method = call.func.attr
    count = len(call.args)
    if DISK_METHODS.fullmatch(method) or (method in DISK_METHODS_OF_NO_ARGUMENT and count == 0):
        return f".{method}()"
    opens_itself = method == "open" and (count == 0 or isinstance(call.args[0], ast.Constant))
    if (opens_itself and not call.keywords) or (method == "rename" and count == 1):
        return f".{method}()"
    return ""
