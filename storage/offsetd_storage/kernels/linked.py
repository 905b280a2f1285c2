"""Kernels without Numba: linked from the machine code that it has made of them.

To import Numba, to declare the kernels to it and to load them takes longer than all else that a
server imports; to link all of them takes ten milliseconds. llvmlite links, and two of Numba's
extension modules, which need nothing else of it, make functions of what was linked, as Numba would.

One thing is missing that Numba adds, its look at the types of each call's arguments: a linked
kernel refuses what is no array, and arrays whose items have another width, and no more. A call
has the same types whenever it is made, and tests make all of them through Numba.

All kernels of some packages are one file beside those of the cache. A file that a process of its
own has not linked and called first is never put there, as LLVM ends a process that it fails.
"""

from __future__ import annotations

import builtins
import ctypes
import functools
import importlib.machinery
import importlib.util
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import llvmlite
import llvmlite.binding
import numpy as np

from offsetd_storage.kernels.code_files import code_folders, code_key, read_code, write_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

# llvmlite has no types.
_llvm: Final[Any] = llvmlite.binding

_FILE: Final = "linked"
_NUMBA_CONFIG: Final = ".numba_config.yaml"  # Which Numba reads where the process begins.
_TRIAL: Final = "from offsetd_storage.kernels.linked import try_out; try_out()"
_TRIAL_SECONDS_MAX: Final = 60


class MachineCode(NamedTuple):
    """What a kernel is made of. The symbols are those of `code`, an object file."""

    name: str  # With its module.
    function_symbol: str  # Of what takes and returns Python objects.
    environment_symbol: str  # Of a pointer to what Numba calls the function's environment.
    code: bytes


def load_linked(packages: Iterable[str]) -> Mapping[str, Callable[..., Any]] | None:
    """All kernels of these packages, by name; None where they were not kept, or Numba is wanted."""
    if not may_link():
        return None
    content = read_code(_folders(packages), _FILE)
    return None if content is None else link(content)


def keep_linked(packages: Iterable[str], kernels: Iterable[MachineCode]) -> bool:
    """Has `load_linked` find these from now on, which are all of the packages, once it was tried.

    False where that failed, or nothing can be written.
    """
    content = pickle.dumps([tuple(each) for each in kernels])
    if not (may_link() and _is_linked_well(content)):
        return False
    return write_code(_folders(packages), _FILE, content)


def has_linked(packages: Iterable[str]) -> bool:
    """Whether `load_linked` would find them."""
    return read_code(_folders(packages), _FILE) is not None


def may_link() -> bool:
    """False where somebody has configured Numba, and expects what is compiled to follow.

    And where it is not installed, or not as we know it.
    """
    is_configured = any(each.startswith("NUMBA_") for each in os.environ)
    if is_configured or Path(_NUMBA_CONFIG).exists():
        return False
    return _numba_version_file() is not None


def link(content: bytes) -> dict[str, Callable[..., Any]]:
    """The kernels of a file, by name. They stay for as long as the process."""
    # The checksum says that these are the bytes we wrote, into a folder only we can write to.
    kernels = [MachineCode(*each) for each in pickle.loads(content)]  # noqa: S301
    functions = _extension("_dynfunc")
    _name_symbols(_extension("_helperlib").c_helpers | functions.c_helpers)
    engine = _engine()
    for each in kernels:
        engine.add_object_file(_llvm.ObjectFileRef.from_data(each.code))
    engine.finalize_object()
    return {each.name: _function(each, engine, functions) for each in kernels}


def try_out() -> None:
    """Links what standard input has, and sees that a kernel does what it should."""
    kernels = link(sys.stdin.buffer.read())
    crc32c = kernels["offsetd_storage.kernels.crc32c.crc32c"]
    text = np.frombuffer(bytearray(b"123456789"), np.uint8)
    sys.exit(crc32c(text, 0, text.size) != 0xE3069283)


def _is_linked_well(content: bytes) -> bool:
    try:
        tried = subprocess.run(  # noqa: S603  Our own words alone.
            [sys.executable, "-c", _TRIAL],
            input=content,
            capture_output=True,
            timeout=_TRIAL_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0


def _folders(packages: Iterable[str]) -> tuple[Path, ...]:
    return code_folders(_key(tuple(packages)))


@functools.cache
def _key(packages: tuple[str, ...]) -> str:
    return code_key(_environment(), *packages)


def _environment() -> tuple[object, ...]:
    """All that machine code depends on, and what makes functions of it."""
    version_file = _numba_version_file()
    assert version_file is not None, "`may_link` was asked"
    return (
        version_file.read_text(),
        llvmlite.__version__,
        np.__version__,
        sys.version,
        _llvm.get_process_triple(),
        _llvm.get_host_cpu_name(),
        _llvm.get_host_cpu_features().flatten(),
    )


@functools.cache
def _numba_version_file() -> Path | None:
    """In the package's folder, as are its extension modules."""
    found = importlib.util.find_spec("numba")  # Which does not import it.
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).with_name("_version.py")
    return path if path.exists() else None


def _extension(name: str) -> Any:
    """An extension module of Numba's, without the package."""
    version_file = _numba_version_file()
    assert version_file is not None, "`may_link` was asked"
    finder = importlib.machinery.FileFinder(
        str(version_file.parent),
        (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
    )
    found = finder.find_spec(name)
    assert found is not None, "Numba has it"
    assert found.loader is not None, "Numba has it"
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def _name_symbols(addresses: Mapping[str, int]) -> None:
    """What machine code may refer to, besides Python's own functions."""
    for name, address in addresses.items():
        _llvm.add_symbol(f"numba_{name}", address)
    _llvm.add_symbol("_Py_NoneStruct", id(None))
    for name, each in vars(builtins).items():
        if isinstance(each, type) and issubclass(each, BaseException):
            _llvm.add_symbol(f"PyExc_{name}", id(each))


@functools.cache
def _engine() -> Any:
    """What links. It owns the machine code, and is never closed."""
    _llvm.initialize_native_target()
    _llvm.initialize_native_asmprinter()
    target = _llvm.Target.from_triple(_llvm.get_process_triple())
    machine = target.create_target_machine(reloc="static", codemodel="jitdefault", jit=True)
    return _llvm.create_mcjit_compiler(_llvm.parse_assembly(""), machine)


def _function(kernel: MachineCode, engine: Any, functions: Any) -> Callable[..., Any]:
    module, _, name = kernel.name.rpartition(".")
    environment = functions.Environment({})
    pointer = engine.get_global_value_address(kernel.environment_symbol)
    ctypes.c_void_p.from_address(pointer).value = id(environment)
    function: Callable[..., Any] = functions.make_function(
        ModuleType(module),
        name,
        "",
        engine.get_function_address(kernel.function_symbol),
        environment,
        (engine, environment),
    )
    return function
