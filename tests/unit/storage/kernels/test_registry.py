from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from kernel_processes import output, run
from offsetd_storage.kernels import cache, padded_copy, registry
from offsetd_storage.kernels.compiling import UnsafeKernelError
from offsetd_storage.kernels.crc32c import crc32c

UNSAFE = re.compile(r"\b(uint64|float\d+|complex\d+)\b")


def total(buffer, start, end):
    result = 0
    for position in range(start, end):
        result += buffer[position]
    return result


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty registry, and an empty cache below `tmp_path`."""
    monkeypatch.setattr(registry, "_kernels", {})
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "temporary").mkdir()
    return tmp_path


def declare():
    """What importing a module with the kernel `total` does in a new process."""
    registry._kernels.clear()
    return registry.kernel("int64(uint8[::1], int64, int64)")(total)


def cached_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_every_kernel_of_ours_is_compiled_for_one_signature_and_has_only_safe_types():
    registry.import_kernels("offsetd_storage.kernels", "offsetd_coordinator.kernels")
    registry.warm()
    kernels = [each for each in registry.registered_kernels() if each.name.startswith("offsetd_")]
    assert {"crc32c", "scan_batches", "find_batch_header", "index_records"} <= {
        each.name.rpartition(".")[2] for each in kernels
    }
    for each in kernels:
        [compiled] = each.dispatcher.overloads.values()
        types = re.findall(r"(?:::|#.*?=) *(.*)", str(compiled.type_annotation))
        assert types, each.name
        unsafe = [line for line in [str(compiled.signature), *types] if UNSAFE.search(line)]
        assert not unsafe, f"{each.name}: {unsafe}"


def large(number: int) -> int:
    return number + np.uint64(1)


def quotient(number: int) -> int:
    return int(number / 2)


def unsigned_column(numbers) -> int:
    return np.int64(numbers[0] & np.uint8(1))


@pytest.mark.parametrize(
    ("function", "signature"),
    [
        (large, "int64(int64)"),
        (quotient, "int64(int64)"),
        (unsigned_column, "int64(uint64[::1])"),
    ],
)
def test_a_kernel_in_which_a_variable_is_uint64_or_float64_is_refused(
    own_cache, function, signature
):
    refused = registry.kernel(signature)(function)
    with pytest.raises(UnsafeKernelError):
        refused.compile(signature)
    assert cached_files(own_cache) == []


def test_a_kernel_is_refused_for_what_a_building_block_of_it_does(own_cache):
    block = registry.inline_kernel(quotient)

    def caller(number):
        return block(number) + 1

    refused = registry.kernel("int64(int64)")(caller)
    with pytest.raises(UnsafeKernelError, match="quotient"):
        refused.compile("int64(int64)")


@pytest.mark.parametrize("when", ["before it is warm", "when it is warm"])
@pytest.mark.parametrize(
    "arguments",
    [
        (np.frombuffer(b"read-only", dtype=np.uint8), 0, 9),
        (np.zeros(18, dtype=np.uint8)[::2], 0, 9),
        (np.zeros(9, dtype=np.int8), 0, 9),
        (np.zeros(9, dtype=np.uint8), 0, 9.0),
    ],
)
def test_a_call_with_other_types_raises(own_cache, when, arguments):
    function = declare()
    if when == "when it is warm":
        registry.warm()
    with pytest.raises(TypeError):
        function(*arguments)


def test_a_kernel_is_compiled_once_and_loaded_from_then_on(own_cache):
    declare()
    assert not registry.is_warm_on_disk()
    assert registry.warm() == 1
    function = declare()
    assert registry.is_warm_on_disk()
    assert registry.warm() == 0
    assert function(padded_copy(b"\x01\x02\x03"), 0, 3) == 6


def test_warming_again_does_nothing(own_cache):
    declare()
    assert [registry.warm(), registry.warm()] == [1, 0]


def test_progress_is_reported_before_each_kernel_and_at_the_end(own_cache):
    seen: list[tuple[int, int, str]] = []
    declare()
    registry.warm(lambda *report: seen.append(report))
    assert seen == [(0, 1, f"{__name__}.total"), (1, 1, "")]


def test_without_warming_a_call_finds_the_kernel_in_the_cache(own_cache):
    declare()
    registry.warm()
    function = declare()
    assert function(padded_copy(b"\x05"), 0, 1) == 5
    assert registry.registered_kernels()[0].cache.compiled == 0


def test_a_kernel_for_later_is_read_and_loaded_by_its_first_call_though_its_file_is_gone(own_cache):
    declare()
    registry.warm()
    function = declare()
    assert registry.warm(later=[__name__]) == 0
    [kernel] = registry.registered_kernels()
    assert not kernel.dispatcher.overloads
    for path in cached_files(own_cache):
        path.unlink()
    assert function(padded_copy(b"\x05"), 0, 1) == 5
    assert kernel.cache.compiled == 0


def test_a_kernel_for_later_that_the_cache_has_not_is_compiled_at_once(own_cache):
    declare()
    assert registry.warm(later=[__name__]) == 1
    assert registry.registered_kernels()[0].dispatcher.overloads


def flip_last_byte(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize(
    "damage",
    [
        flip_last_byte,
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: b"\0" * len(content),
        lambda content: b"something else",
    ],
    ids=["a bit is flipped", "cut short", "empty", "zeros", "another file"],
)
def test_a_damaged_file_is_compiled_and_written_again(own_cache, damage):
    declare()
    registry.warm()
    [path] = cached_files(own_cache)
    path.write_bytes(damage(path.read_bytes()))
    function = declare()
    assert not registry.is_warm_on_disk()
    assert registry.warm() == 1
    assert function(padded_copy(b"\x01\x02"), 0, 2) == 3
    declare()
    assert registry.is_warm_on_disk()


def test_where_the_cache_folder_cannot_be_made_the_temporary_folder_serves(own_cache):
    (own_cache / "cache").write_text("a file where the folder should be")
    declare()
    assert registry.warm() == 1
    assert [path.parent.parent.parent.name for path in cached_files(own_cache / "temporary")] == [
        "temporary"
    ]
    declare()
    assert registry.warm() == 0


def test_where_no_folder_can_be_written_to_kernels_work_without_a_cache(own_cache, monkeypatch):
    (own_cache / "cache").write_text("a file where the folder should be")
    monkeypatch.setattr(tempfile, "tempdir", str(own_cache / "cache"))
    function = declare()
    assert registry.warm() == 1
    assert function(padded_copy(b"\x07"), 0, 1) == 7
    assert not registry.is_warm_on_disk()


@pytest.mark.parametrize("depth", [0, 1])
def test_machine_code_in_a_folder_that_others_can_write_to_is_not_loaded(own_cache, depth):
    declare()
    registry.warm()
    [path] = cached_files(own_cache)
    path.parents[depth].chmod(0o777)
    declare()
    assert not registry.is_warm_on_disk()


def test_a_link_is_not_a_folder_of_ours(own_cache):
    declare()
    registry.warm()
    [path] = cached_files(own_cache)
    path.parent.rename(own_cache / "elsewhere")
    path.parent.symlink_to(own_cache / "elsewhere")
    declare()
    assert not registry.is_warm_on_disk()


@pytest.mark.parametrize("cache_home", ["", "relative/folder"])
def test_a_cache_home_that_is_empty_or_relative_is_ignored(own_cache, monkeypatch, cache_home):
    monkeypatch.setenv("XDG_CACHE_HOME", cache_home)
    monkeypatch.setenv("HOME", str(own_cache / "home"))
    assert cache.cache_folders(total)[0].parent == own_cache / "home/.cache/offsetd/kernels"


WARM_CRC32C = """
from offsetd_storage.kernels import padded_copy, registry
from offsetd_storage.kernels.crc32c import crc32c
compiled = registry.warm()
print(compiled, crc32c(padded_copy(b"123456789"), 0, 9))
"""


@pytest.mark.slow
def test_two_processes_that_warm_at_once_both_succeed_and_leave_whole_files(tmp_path):
    both = [run(WARM_CRC32C, folder=tmp_path) for _ in range(2)]
    assert {output(process).split()[1] for process in both} == {str(0xE3069283)}
    assert {path.name.startswith(".") for path in cached_files(tmp_path / "cache")} == {False}
    assert output(run(WARM_CRC32C, folder=tmp_path)) == f"0 {0xE3069283}"


@pytest.mark.slow
def test_a_change_in_a_module_that_a_kernel_calls_is_noticed(tmp_path):
    # Numba's own cache, keyed by the file of the kernel alone, would answer 6 again.
    package = tmp_path / "probe" / "kernels"
    package.mkdir(parents=True)
    (tmp_path / "probe" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "outer.py").write_text(
        "from offsetd_storage.kernels.registry import kernel\n"
        "from probe.kernels.inner import scaled\n"
        "@kernel('int64(int64)')\n"
        "def outer(number):\n    return scaled(number)\n"
    )
    inner = "from offsetd_storage.kernels.registry import inline_kernel\n@inline_kernel\n"
    script = (
        "from probe.kernels.outer import outer\n"
        "from offsetd_storage.kernels import registry\n"
        "print(registry.warm(), outer(3))\n"
    )
    results = []
    for factor in (2, 2, 5):
        (package / "inner.py").write_text(
            f"{inner}def scaled(number):\n    return number * {factor}\n"
        )
        results.append(output(run(script, folder=tmp_path, PYTHONDONTWRITEBYTECODE="1")))
    assert results == ["1 6", "0 6", "1 15"]


@pytest.mark.slow
def test_what_only_compiling_needs_is_not_imported_to_load_kernels(tmp_path):
    script = f"{WARM_CRC32C}import sys\nprint('numba.np.arraymath' in sys.modules)\n"
    outputs = [output(run(script, folder=tmp_path)) for _ in range(2)]
    assert outputs == [f"2 {0xE3069283}\nTrue", f"0 {0xE3069283}\nFalse"]


@pytest.mark.slow
def test_a_kernel_is_compiled_after_the_one_that_it_calls_was_loaded(tmp_path):
    (tmp_path / "calling.py").write_text(
        "from offsetd_storage.kernels.registry import kernel\n"
        "@kernel('int64(int64)')\n"
        "def inner(number):\n    return number * 2\n"
        "@kernel('int64(uint8[::1], int64)')\n"
        "def outer(buffer, number):\n    return inner(number) + len(buffer)\n"
    )
    script = (
        "import numpy as np\n"
        "from calling import inner, outer\n"
        "from offsetd_storage.kernels import registry\n"
        "print(inner(5), registry.warm(), outer(np.zeros(3, dtype=np.uint8), 5))\n"
    )
    assert output(run(script, folder=tmp_path)) == "10 1 13"
    [cached] = [each for each in cached_files(tmp_path / "cache") if "outer" in each.name]
    cached.unlink()
    assert output(run(script, folder=tmp_path)) == "10 1 13"
    assert output(run(script, folder=tmp_path)) == "10 0 13"


def test_with_numbas_bounds_check_a_load_outside_of_the_buffer_raises_from_another_folder():
    script = """
import numpy as np
from offsetd_storage.kernels import cache
from offsetd_storage.kernels.crc32c import crc32c
try:
    crc32c(np.zeros(8, dtype=np.uint8), 0, 9)
except IndexError as error:
    print(error)
print(cache.cache_folders(crc32c.py_func)[0])
"""
    folder = Path.cwd()
    environment = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", "")}
    checked = output(run(script, folder=folder, NUMBA_BOUNDSCHECK="1", **environment))
    message, checked_folder = checked.splitlines()
    assert message == "outside of the buffer"
    unchecked = output(run(script, folder=folder, NUMBA_BOUNDSCHECK="0", **environment))
    assert unchecked.splitlines()[-1] != checked_folder


def test_a_kernel_says_what_it_takes():
    [registered] = [each for each in registry.registered_kernels() if each.dispatcher is crc32c]
    assert registered.signature == "int64(uint8[::1], int64, int64)"
