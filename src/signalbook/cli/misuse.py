"""What to tell someone whose command line is wrong, in the words of this house instead of the option library's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

_KINDS: Final = (("integer", "a whole number"), ("number", "a number"), ("boolean", "true or false"))
_LISTED: Final = re.compile(r"'([^']*)'")


def words(error: Exception) -> str | None:
    """The words for an error of the command line itself, None for any other.

    The library hands out one of its exceptions only, so the others are told by name.
    """
    for ancestor in type(error).__mro__:
        if ancestor.__name__ in _WORDS:
            return f"{_WORDS[ancestor.__name__](error)}\n{_advice(error)}"
    return None


def _advice(error: Any) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "signalbook"
    return f"{command} --help explains it"


def _missing(error: Any) -> str:
    return f"{_name(error.param)} is missing"


def _unknown_option(error: Any) -> str:
    near = f"; did you mean {error.possibilities[0]}?" if error.possibilities else ""
    return f"there is no option {error.option_name}{near}"


def _value(error: Any) -> str:
    message = str(error.message)
    if error.param is None or error.param_hint:  # ours
        return f"{error.param_hint}: {message}" if error.param_hint else message
    wanted = next((kind for sign, kind in _KINDS if sign in message), None)
    if wanted is None and " not one of " in message:
        given, *choices = _LISTED.findall(message)
        return f"{_name(error.param)} takes {' or '.join(choices)}, not {given!r}"
    return f"{_name(error.param)} takes {wanted}" if wanted else f"{_name(error.param)}: {message}"


def _no_value(error: Any) -> str:
    return f"{error.option_name} needs a value behind it"


def _usage(error: Any) -> str:
    message = str(error.message)
    if message.startswith("No such command"):
        commands = sorted(getattr(error.ctx.command, "commands", {}))
        return f"there is no command {_LISTED.findall(message)[0]}; there are: {', '.join(commands)}"
    if "extra argument" in message:
        return f"there is more on the line than the command takes: {message.rpartition('(')[2].rstrip(')')}"
    return message


def _name(parameter: Any) -> str:
    return str(
        parameter.opts[-1] if parameter.opts[-1].startswith("-") else parameter.metavar or parameter.name.upper()
    )


_WORDS: Final[dict[str, Callable[[Any], str]]] = {
    "MissingParameter": _missing,
    "NoSuchOption": _unknown_option,
    "BadParameter": _value,
    "BadOptionUsage": _no_value,
    "UsageError": _usage,
}
