"""``signalbook conform``: the command of the conformance kit, with the credentials of all commands."""

from __future__ import annotations

from typing import Final

from typer import Context, Exit

from signalbook.cli.console import CommandGroup
from signalbook.cli.credentials import TokenOption
from signalbook.errors import SignalbookError

app: Final = CommandGroup(add_completion=False)


# The options are those of the kit, a distribution of its own.
@app.command(
    "conform",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
)
def run(context: Context, token: TokenOption = None) -> None:  # noqa: ARG001  it is kept by now
    """Check an xRegistry server against the specification, 1.0-rc4."""
    from signalbook.client.credentials import find
    from xregistry_conformance.command import app as kit
    from xregistry_conformance.errors import KitError

    try:
        code = kit(context.args, prog_name="signalbook conform", standalone_mode=False, obj=lambda url: find(url, None))
    except KitError as error:
        raise SignalbookError(str(error)) from error
    raise Exit(code or 0)
