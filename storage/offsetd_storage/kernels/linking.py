"""Links cached machine code into kernels, without Numba.

Numba makes an object file of each kernel. llvmlite links object files, and two of Numba's extension
modules make Python functions of linked code. They work without the rest of Numba, so a server
starts 0.17 s sooner and takes 38 MB less memory (docs/adr/0050).

The switch: if any environment variable `NUMBA_…` is set, nothing is linked, and Numba compiles or
loads the kernels. The same happens if no file of linked code fits, or Numba is not installed.

The differences from Numba's functions: a linked kernel does not check the types of all arguments.
It refuses what is not an array, and arrays of another item width. The tests call every kernel
through Numba, which checks all types.

The file: one for all kernels of some packages, in the cache folder (see `code_files`). LLVM ends
the process if it cannot link, so a separate process links a new file before it is written.
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
_SWITCH: Final = "NUMBA_"  # How the names of Numba's environment variables start.
_TRIAL: Final = "from offsetd_storage.kernels.linking import try_out; try_out()"
_TRIAL_SECONDS_MAX: Final = 60


class MachineCode(NamedTuple):
    """The machine code of one kernel: an object file, and two of its symbols."""

    name: str  # Module and function.
    function_symbol: str  # The function that takes and returns Python objects.
    environment_symbol: str  # The pointer to Numba's environment of the function.
    code: bytes


def load_linked(packages: Iterable[str]) -> Mapping[str, Callable[..., Any]] | None:
    """Return all kernels of these packages, by name; None if Numba has to be used."""
    if not may_link():
        return None
    content = read_code(_folders(packages), _FILE)
    return None if content is None else link(content)


def keep_linked(packages: Iterable[str], kernels: Iterable[MachineCode]) -> bool:
    """Write the file that `load_linked` reads. `kernels` are all kernels of the packages.

    Returns False if the kernels cannot be linked, or the file cannot be written.
    """
    content = pickle.dumps([tuple(each) for each in kernels])
    if not (may_link() and _is_linked_well(content)):
        return False
    return write_code(_folders(packages), _FILE, content)


def has_linked(packages: Iterable[str]) -> bool:
    """Whether the file of these packages exists and is whole."""
    return read_code(_folders(packages), _FILE) is not None


def may_link() -> bool:
    """Whether the switch is off, and the files of Numba are where they are expected."""
    if any(each.startswith(_SWITCH) for each in os.environ):
        return False
    return _numba_version_file() is not None


def link(content: bytes) -> dict[str, Callable[..., Any]]:
    """Link a file's kernels, and return them by name. They live as long as the process."""
    # Nobody else can write to the folder, and the checksum of the file has been verified.
    kernels = [MachineCode(*each) for each in pickle.loads(content)]  # noqa: S301
    functions = _extension("_dynfunc")
    _name_symbols(_extension("_helperlib").c_helpers | functions.c_helpers)
    engine = _engine()
    for each in kernels:
        engine.add_object_file(_llvm.ObjectFileRef.from_data(each.code))
    engine.finalize_object()
    return {each.name: _function(each, engine, functions) for each in kernels}


def try_out() -> None:
    """Link the file on standard input. Exit with 0 if a kernel returns the right result."""
    kernels = link(sys.stdin.buffer.read())
    crc32c = kernels["offsetd_storage.kernels.crc32c.crc32c"]
    text = np.frombuffer(bytearray(b"123456789"), np.uint8)
    sys.exit(crc32c(text, 0, text.size) != 0xE3069283)


def _is_linked_well(content: bytes) -> bool:
    try:
        tried = subprocess.run(  # noqa: S603  All arguments are constants.
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
    """Everything that machine code depends on, in addition to the sources of the kernels."""
    version_file = _numba_version_file()
    assert version_file is not None, "the caller has asked `may_link`"
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
    """Numba's `_version.py`; its extension modules are in the same folder."""
    found = importlib.util.find_spec("numba")  # This does not import it.
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).with_name("_version.py")
    return path if path.exists() else None


def _extension(name: str) -> Any:
    """Import an extension module of Numba without the package."""
    version_file = _numba_version_file()
    assert version_file is not None, "the caller has asked `may_link`"
    finder = importlib.machinery.FileFinder(
        str(version_file.parent),
        (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
    )
    found = finder.find_spec(name)
    assert found is not None, "it is a part of Numba"
    assert found.loader is not None, "it is a part of Numba"
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def _name_symbols(addresses: Mapping[str, int]) -> None:
    """Register the addresses that machine code may use, in addition to Python's functions."""
    for name, address in addresses.items():
        _llvm.add_symbol(f"numba_{name}", address)
    _llvm.add_symbol("_Py_NoneStruct", id(None))
    for name, each in vars(builtins).items():
        if isinstance(each, type) and issubclass(each, BaseException):
            _llvm.add_symbol(f"PyExc_{name}", id(each))


@functools.cache
def _engine() -> Any:
    """LLVM's linker. It owns the machine code, and is never closed."""
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
