"""`offsetd serve`: runs the server until a signal stops it."""

import asyncio
import contextlib
import gc
import logging
import os
import random
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

from offsetd_coordinator.background.web_process import (
    LISTEN_DEFAULT,
    missing_package,
    serve_pages,
)
from offsetd_coordinator.commands.kernel_commands import link_kernels
from offsetd_coordinator.commands.service_notification import notify_when_serving
from offsetd_coordinator.commands.terminal import WRONG_USE, Terminal
from offsetd_coordinator.configuration.server_settings import (
    ALL_SETTINGS,
    Settings,
    default_entries,
)
from offsetd_coordinator.configuration.settings_sources import SettingsError, load_settings
from offsetd_coordinator.network.ports import listen_error, next_free_address

if TYPE_CHECKING:
    import typer

    from offsetd_coordinator.server import Server

_log = logging.getLogger(__name__)  # `log_setup` loads structlog.

_CONFIG: Final = "--config"
_SET: Final = "--set"
_DATA_DIR: Final = "--data-dir"
_LISTEN: Final = "--listen"
_WEB: Final = "--web"
_WEB_LISTEN: Final = "--web-listen"
_WITH_VALUE: Final = (_CONFIG, _SET, _DATA_DIR, _LISTEN, _WEB_LISTEN)
# Options for one setting each; they override the setting.
_SETTINGS: Final = {_DATA_DIR: "data.dir", _LISTEN: "listen.address"}
# gRPC reads its sockets in threads of its own, which pass the bytes to the thread that waits for
# calls. Without these threads, that thread reads the sockets itself, and a call takes a third fewer
# thread switches.
GRPC_READS_ITSELF: Final = ("GRPC_EXPERIMENTS", "-event_engine_listener")
# NumPy's linear algebra is not used here, but has a thread for each core. These threads spin while
# the server starts, for a tenth of the start's processor time.
ALGEBRA_IS_ALONE: Final = ("OPENBLAS_NUM_THREADS", "1")
# How long another thread may keep the interpreter from the event loop: history is read on threads.
# A commit needs it about five times, so Python's 5 ms would add up to 25 ms.
_SWITCH_SECONDS: Final = 0.0005


def register(app: "typer.Typer", terminal: Terminal) -> None:
    """Add the command `serve`."""
    import typer  # noqa: PLC0415  Arguments that `read_plain` can read do not need it.

    @app.command("serve")
    def serve(
        data_dir: Annotated[
            str | None,
            typer.Option(_DATA_DIR, help="Folder of the log (data.dir).", metavar="DIR"),
        ] = None,
        listen: Annotated[
            str | None,
            typer.Option(_LISTEN, help="Where to serve (listen.address).", metavar="HOST:PORT"),
        ] = None,
        config: Annotated[
            Path | None, typer.Option(_CONFIG, help="Settings as TOML.", metavar="FILE")
        ] = None,
        assignments: Annotated[
            list[str] | None,
            typer.Option(_SET, help="One setting; may be repeated.", metavar="NAME=VALUE"),
        ] = None,
        accept_defaults: Annotated[
            bool,
            typer.Option(
                "--accept-default-settings",
                help="Use defaults if settings that were changed at run time cannot be read.",
            ),
        ] = False,
        web: Annotated[bool, typer.Option(_WEB, help="Also serve `offsetd web`.")] = False,
        web_listen: Annotated[
            str | None,
            typer.Option(_WEB_LISTEN, help="Where the pages of --web are.", metavar="HOST:PORT"),
        ] = None,
        list_settings: Annotated[
            bool, typer.Option("--list-settings", help="Print every setting, and exit.")
        ] = False,
    ) -> None:
        """Run the server.

        A setting comes from --set, else from the environment (OFFSETD_SEGMENT_MS for segment.ms),
        else from the file of --config, else it has its default; --list-settings prints them all.
        SIGTERM and SIGINT drain and stop the server; a second signal stops it at once. If settings
        that were changed at run time cannot be read, the server serves, but it does not expire,
        clean or delete anything by itself until they are repaired, or until it is started with
        --accept-default-settings.

        Examples:
            offsetd serve
            offsetd serve --data-dir offsets --set history.ms=86400000
            offsetd serve --config offsetd.toml
            offsetd serve --web
            offsetd serve --list-settings -o csv
        """
        if list_settings:
            _print_settings(terminal)
            return
        given = {_DATA_DIR: data_dir, _LISTEN: listen}
        pages = _pages_at(terminal, web_listen, is_wanted=web)
        chosen = assignments or []
        _serve(terminal, config, chosen, given, accepts_defaults=accept_defaults, pages=pages)


def _pages_at(terminal: Terminal, listen: str | None, *, is_wanted: bool) -> str | None:
    """Where the pages are to listen; None if there are to be none."""
    if listen is not None and not is_wanted:
        terminal.fail(f"{_WEB_LISTEN} is for the pages of {_WEB}", code=WRONG_USE)
    return listen or LISTEN_DEFAULT if is_wanted else None


def read_plain(arguments: Sequence[str]) -> Callable[[Terminal], None] | None:
    """A function that runs the server, if `arguments` only set settings; else None.

    This reads only options with their full names and a value, which nearly every start uses. If it
    returns None, typer has to parse the arguments.
    """
    config: Path | None = None
    assignments: list[str] = []
    given: dict[str, str | None] = {}
    pages: str | None = None
    left = iter(arguments)
    for argument in left:
        if argument == _WEB:
            pages = LISTEN_DEFAULT
            continue
        name, equals, value = argument.partition("=")
        value = value if equals else next(left, "")
        if not value or value.startswith("-") or not value.isprintable():
            return None
        if name == _SET:
            assignments.append(value)
        elif name == _CONFIG:
            config = Path(value)
        elif name in _SETTINGS:
            given[name] = value
        else:
            return None
    return lambda terminal: _serve(terminal, config, assignments, given, pages=pages)


def _serve(
    terminal: Terminal,
    config: Path | None,
    assignments: Sequence[str],
    given: Mapping[str, str | None],
    *,
    accepts_defaults: bool = False,
    pages: str | None = None,
) -> None:
    if pages is not None and (missing := missing_package()) is not None:
        terminal.fail(f"{_WEB}: {missing} is not installed: it is of offsetd's extra `web`")
    for name, value in (GRPC_READS_ITSELF, ALGEBRA_IS_ALONE):
        os.environ.setdefault(name, value)  # Read when the library is first used.
    sys.setswitchinterval(_SWITCH_SECONDS)
    link_kernels()  # Before any module imports a kernel.
    options = {
        option: (_SETTINGS[option], value) for option, value in given.items() if value is not None
    }
    settings = _read_settings(terminal, config, assignments, options)
    _check_ports(settings, terminal)  # Compiling may take minutes, so check first.
    _run(settings, terminal, accepts_defaults=accepts_defaults, pages=pages)


def _check_ports(settings: Settings, terminal: Terminal) -> None:
    """Fails if a port that the server needs is taken, and prints a command that would work."""
    wanted = {"listen.address": settings.listen_address}
    if "metrics.address" in settings.said and settings.metrics_address:
        wanted["metrics.address"] = settings.metrics_address
    for name, address in wanted.items():
        error = listen_error(address)
        if error is None:
            continue
        text = f"cannot listen on {address} ({name}): {error.strerror}"
        if (near := next_free_address(address, error)) is not None:
            words = (_LISTEN, near) if name == _SETTINGS[_LISTEN] else (_SET, f"{name}={near}")
            text += f". To use another port: {_called_as(words)}"
        terminal.fail(text)


def _called_as(words: Sequence[str]) -> str:
    """The text to type for the option `words`; the whole command if make started this process."""
    if "MAKELEVEL" not in os.environ:
        return f"add {shlex.join(words)}"
    given = [each for each in sys.argv[2:] if each != _WEB]  # The Makefile gives it.
    return f"make serve ARGS={shlex.quote(shlex.join(with_option(given, words)))}"


def with_option(given: Sequence[str], words: Sequence[str]) -> list[str]:
    """The arguments `given` to `serve`, with the setting of `words` instead of an earlier one."""
    setting = _setting_of(*words)
    kept: list[str] = []
    left = iter(given)
    for each in left:
        parts = [each, next(left, "")] if each in _WITH_VALUE else [each]
        option, _, value = each.partition("=")
        if _setting_of(option, value or parts[-1]) != setting:
            kept += parts
    return [*kept, *words]


def _setting_of(option: str, value: str) -> str | None:
    """The setting of an option, or None."""
    return value.partition("=")[0] if option == _SET else _SETTINGS.get(option)


def _print_settings(terminal: Terminal) -> None:
    terminal.rows(
        ("name", "default", "unit", "allowed", "kafka", "dynamic", "reason"),
        (
            {
                "name": entry.name,
                "default": entry.default,
                "unit": entry.unit,
                "allowed": entry.allowed,
                "kafka": ALL_SETTINGS[entry.name].kafka_name,
                "dynamic": entry.is_dynamic,
                "reason": entry.reason,
            }
            for entry in default_entries()
        ),
        droppable=("kafka", "dynamic", "allowed", "reason", "unit"),
    )


def _read_settings(
    terminal: Terminal,
    config: Path | None,
    assignments: Sequence[str],
    options: Mapping[str, tuple[str, str]],
) -> Settings:
    try:
        toml = "" if config is None else config.read_text(encoding="utf-8")
        return load_settings(
            toml=toml,
            toml_name=str(config),
            environment=os.environ,
            assignments=assignments,
            options=options,
        )
    except OSError as error:
        terminal.fail(f"cannot read {config}: {error.strerror or error}", code=WRONG_USE)
    except UnicodeDecodeError:
        terminal.fail(f"cannot read {config}: it is not UTF-8", code=WRONG_USE)
    except SettingsError as error:
        terminal.fail(str(error), code=WRONG_USE)


def _run(
    settings: Settings, terminal: Terminal, *, accepts_defaults: bool, pages: str | None
) -> None:
    with _nothing_collected():
        # Imported only here, because other uses of this command do not need these modules.
        import uvloop  # noqa: PLC0415
        from offsetd_storage.backups.backup_errors import WrongTarget  # noqa: PLC0415
        from offsetd_storage.clock import SystemClock  # noqa: PLC0415
        from offsetd_storage.disk.files import OsFiles  # noqa: PLC0415
        from offsetd_storage.errors import StorageFailed  # noqa: PLC0415

        from offsetd_coordinator.commands.kernel_commands import (  # noqa: PLC0415
            CLEANER_KERNELS,
            LATER_KERNELS,
            load_later_kernels,
            warm_kernels,
        )
        from offsetd_coordinator.observability.log_setup import set_up_logging  # noqa: PLC0415
        from offsetd_coordinator.runtime.storage_refusals import last_words  # noqa: PLC0415
        from offsetd_coordinator.server import Server  # noqa: PLC0415
        from offsetd_coordinator.server_folder import StartFailed  # noqa: PLC0415

        set_up_logging(
            level=settings.logging_level,
            log_format=settings.logging_format,
            has_traces=settings.tracing_enable,
        )
        warm_kernels(terminal, later=CLEANER_KERNELS | LATER_KERNELS)

    async def run() -> None:
        server = Server(
            settings,
            files=OsFiles(),
            clock=SystemClock(),
            random=random.SystemRandom(),
            accepts_default_settings=accepts_defaults,
        )
        _stop_on_signals(server)
        beside = asyncio.gather(
            load_later_kernels(server.serving),
            notify_when_serving(server.serving),
            _show(server, settings, pages),
        )
        code = 1
        try:
            await server.run()
            code = 0
        except StartFailed as error:
            terminal.note(f"error: {error}")
            # With this code, a service manager does not try again.
            code = WRONG_USE if isinstance(error.__cause__, WrongTarget) else code
        except StorageFailed as error:
            terminal.note(f"error: {last_words(error)}")
        except Exception:  # noqa: BLE001  Nothing above this prints it.
            _log.exception("the server ends because of a defect")
        beside.cancel()
        # Exit here. Returning would cancel the calls that are being refused.
        _exit_now(code)

    uvloop.run(run())


async def _show(server: "Server", settings: Settings, pages: str | None) -> None:
    """Runs the pages next to a serving server, if they are requested."""
    if pages is None:
        return
    await server.serving.wait()
    is_fixed = not settings.listen_address.endswith(":0")
    await serve_pages(pages, settings.listen_address if is_fixed else server.node.address)


@contextlib.contextmanager
def _nothing_collected() -> Iterator[None]:
    """A context without garbage collection. Its objects are never collected later either.

    They are modules and kernels, which live as long as the process. Collections would take a sixth
    of a start.
    """
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def _stop_on_signals(server: "Server") -> None:
    loop = asyncio.get_running_loop()
    seen = False

    def on_signal() -> None:
        nonlocal seen
        if seen:
            _exit_now(1)
        seen = True
        server.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)


def _exit_now(code: int) -> NoReturn:
    """Ends the process without waiting for threads, because one may hang in disk access."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
