"""``--token``: the credentials that a command sends to the registry it works on."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import partial, wraps
from typing import Annotated, Any, Final, get_type_hints

from typer import Context, Option

_VARIABLE: Final = "SIGNALBOOK_TOKEN"
_REGISTRIES: Final = frozenset({"--server", "--registry", "--report-to"})
"""Options of commands that name a registry."""


def _keep(context: Context, token: str | None) -> None:
    # For all clients of this command, as if it had come from the environment. What runs after it in the same process
    # does not get it: credentials are not to reach another server.
    if token:
        context.call_on_close(partial(_restore, os.environ.get(_VARIABLE)))
        os.environ[_VARIABLE] = token


def _restore(token: str | None) -> None:
    if token is None:
        os.environ.pop(_VARIABLE, None)
    else:
        os.environ[_VARIABLE] = token


TokenOption = Annotated[
    str | None,
    Option(
        "--token",
        metavar="TOKEN",
        callback=_keep,
        help="Credentials for the server: an API token or JWT, better file:PATH or '${NAME}'. Default: "
        "SIGNALBOOK_TOKEN, or what signalbook login keeps.",
    ),
]


def with_token(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` as a command, with ``--token`` if it has an option that names a registry."""
    hints = get_type_hints(function, include_extras=True)
    if "token" in hints or not any(map(_names_registry, hints.values())):
        return function

    @wraps(function)
    def run(*given: Any, token: str | None, **options: Any) -> Any:  # noqa: ARG001  it is kept by now
        return function(*given, **options)

    token = inspect.Parameter("token", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=TokenOption)
    parameters = [
        parameter.replace(annotation=hints[name]) for name, parameter in inspect.signature(function).parameters.items()
    ]
    # What the command line reads instead of ``run`` itself.
    run.__signature__ = inspect.Signature([*parameters, token])  # type: ignore[attr-defined]
    run.__annotations__ = {**hints, "token": TokenOption}
    return run


def _names_registry(hint: Any) -> bool:
    # Where the option is part of the type, Typer keeps its first name as what would be its default.
    return any(
        name in _REGISTRIES
        for option in getattr(hint, "__metadata__", ())
        for name in (getattr(option, "default", None), *(getattr(option, "param_decls", None) or ()))
        if isinstance(name, str)
    )
