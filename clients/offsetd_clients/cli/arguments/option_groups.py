"""Options that together make up one parameter of a command, for several commands."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

Command = Callable[..., Any]


def with_options(
    argument: str, build: Callable[..., Any], options: Mapping[str, tuple[Any, Any]]
) -> Callable[[Command], Command]:
    """A decorator that gives a command `options`, and passes it the result of `build`.

    `options` has annotations and defaults, by the names that `build` takes.
    """

    def decorate(callback: Command) -> Command:
        @functools.wraps(callback)
        def command(*args: Any, **kwargs: Any) -> Any:
            given = {name: kwargs.pop(name) for name in options}
            return callback(*args, **kwargs, **{argument: build(**given)})

        signature = inspect.signature(callback)
        own = [each for name, each in signature.parameters.items() if name != argument]
        added = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
            for name, (annotation, default) in options.items()
        ]
        # typer reads both.
        command.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*own, *added]
        )
        annotations = {name: annotation for name, (annotation, _) in options.items()}
        command.__annotations__ = {**callback.__annotations__, **annotations}
        del command.__annotations__[argument]
        return command

    return decorate
