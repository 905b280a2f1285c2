"""`offsetd kernels warm`: compiles the kernels, or finds them in the cache."""

import asyncio
import gc
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from offsetd_coordinator.commands.terminal import Terminal

if TYPE_CHECKING:
    import typer

KERNEL_PACKAGES = ("offsetd_storage.kernels", "offsetd_coordinator.kernels")

# A start does not wait for these kernels. The cleaner's first round loads them, in its thread.
CLEANER_KERNELS: Final = frozenset(
    f"offsetd_storage.kernels.{name}"
    for name in ("bitmap", "key_offsets", "producers", "compaction_filter", "segment_rewrite")
)
# These kernels are loaded as soon as the server serves. A commit, a fetch and a start usually do
# not need them. Code that needs one earlier loads it then.
LATER_KERNELS: Final = frozenset(
    {
        "offsetd_storage.kernels.decode",
        "offsetd_storage.kernels.utf8",
        *(
            f"offsetd_coordinator.kernels.{name}"
            for name in (
                "records.change_records",
                "records.put_records",
                "records.tombstone_records",
                "table.entries",
                "table.expired_offsets",
                "table.group_placement",
                "table.lag_verdicts",
                "table.names",
                "table.slots",
            )
        ),
    }
)
_PAUSE_SECONDS: Final = 0.02


def register(app: "typer.Typer", terminal: Terminal) -> None:
    """Add the group `kernels`."""
    import typer  # noqa: PLC0415  A server's start, which warms kernels too, does not need it.

    group = typer.Typer(help="The compiled loops of the server.", no_args_is_help=True)
    app.add_typer(group, name="kernels")
    group.callback()(_group)

    @group.command("warm")
    def warm() -> None:
        """Compile the kernels for this machine.

        They are stored in the user's cache folder, where the server finds them.

        Examples:
            offsetd kernels warm
        """
        from offsetd_storage.kernels import registry  # noqa: PLC0415  The help needs no compiler.

        compiled = warm_kernels(terminal)
        total = len(registry.registered_kernels())
        terminal.note(f"{total} kernels are ready; {compiled} of them had to be compiled")


def _group() -> None:
    """The compiled loops of the server."""


def link_kernels() -> None:
    """Links cached kernels without Numba. Call it before any module imports a kernel."""
    from offsetd_storage.kernels import registry  # noqa: PLC0415

    registry.link(*KERNEL_PACKAGES)


def warm_kernels(terminal: Terminal, *, later: Collection[str] = ()) -> int:
    """Makes every kernel that is not linked ready to run. Prints a note if it must compile.

    Kernels of the modules `later` are loaded only if they have to be compiled. Returns the number
    of compiled kernels. The next process can link them.
    """
    from offsetd_storage.kernels import registry  # noqa: PLC0415

    if registry.is_linked():
        return 0
    registry.import_kernels(*KERNEL_PACKAGES)
    if registry.is_warm_on_disk():
        compiled = registry.warm(later=later)
    else:
        total = len(registry.registered_kernels())
        terminal.note(f"compiling {total} kernels for this machine, once: a minute or two")
        gc.enable()  # Otherwise the server would keep the compiler's garbage.
        with terminal.progress("kernels") as report:
            compiled = registry.warm(_by_short_name(report))
    registry.keep_linked(*KERNEL_PACKAGES)
    return compiled


async def load_later_kernels(serving: asyncio.Event) -> None:
    """Loads all kernels but the cleaner's once `serving` is set, on a thread and with pauses.

    Loading a kernel holds the interpreter for some milliseconds, and calls may wait for that.
    """
    from offsetd_storage.kernels import registry  # noqa: PLC0415

    def pause(_done: int, _total: int, _name: str) -> None:
        time.sleep(_PAUSE_SECONDS)

    await serving.wait()
    await asyncio.to_thread(registry.warm, pause, later=CLEANER_KERNELS)


def _by_short_name(report: Callable[[int, int, str], None]) -> Callable[[int, int, str], None]:
    def progress(done: int, total: int, name: str) -> None:
        report(done, total, name.rpartition(".")[2])

    return progress
