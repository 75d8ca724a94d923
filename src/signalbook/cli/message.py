"""``signalbook message``: what a definition asks of its producers, a message of it, whether messages may be sent."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from typer import Argument, Option

from signalbook.cli.console import CommandGroup, echo, plain
from signalbook.cli.files import read_file
from signalbook.cli.registry import RegistryOption, add_slashes
from signalbook.values import Finding, JSONObject, dump_json

if TYPE_CHECKING:
    from signalbook.messages import Rejected


app: Final = CommandGroup(help="Make messages of definitions, and check them before they are sent.")
NameArgument = Annotated[str, Argument(metavar="MESSAGE", help="Xid or id of a message definition.")]
EndpointOption = Annotated[str, Option("--endpoint", metavar="XID", help="The endpoint it is for.")]
MessageForm = Literal["event", "message", "http"]


@app.command("inputs")
def inputs(
    message: NameArgument,
    registry: RegistryOption,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what has to be given to make a message of a definition, and what may be, a line each: name, type, what it is
    for, whether it is required.
    """
    from signalbook.cli.producing import KnownDefinitions, table
    from signalbook.messages import required_inputs

    definitions = KnownDefinitions.read(registry)
    definition = definitions.definition(message)
    _warn(definition.xid, definitions.contract.incomplete.get(definition.xid, ()))
    params = required_inputs(definition)
    if as_json:
        echo(dump_json({"message": definition.xid, "inputs": params}))
        return
    rows = [
        (parameter.name, parameter.type, parameter.source, "required" if parameter.required else "optional")
        for parameter in params
    ]
    for line in table(rows):
        echo(plain(line))


@app.command("build")
def build(
    message: NameArgument,
    registry: RegistryOption,
    assign: Annotated[
        list[str] | None,
        Option(
            "--set", metavar="NAME=VALUE", help="A placeholder, an attribute, or the path of a property; repeatable."
        ),
    ] = None,
    data: Annotated[
        str, Option("--data", metavar="FILE", help="The data in JSON, or the XML; - is standard input.")
    ] = "",
    payload: Annotated[str, Option("--payload", metavar="FILE", help="The payload itself, in its own format.")] = "",
    endpoint: EndpointOption = "",
    protocol: Annotated[str, Option("--protocol", metavar="NAME", help="The protocol it is for.")] = "",
    form: Annotated[
        MessageForm | None,
        Option(
            "--as",
            help="A line with the event, with the message of its protocol, or an HTTP request.",
            show_default="event, if it is one and no protocol is named",
        ),
    ] = None,
) -> None:
    """Make one message of a definition, and print it.

    Everything that is wrong is reported, and then nothing is printed. The payload is written by the definition's
    schema.
    """
    from signalbook.cli.producing import AssignedInputs, KnownDefinitions, as_event, as_record, as_request, data_in
    from signalbook.messages import bind
    from signalbook.messages import build as build_message
    from signalbook.messages.payload import UNSET

    if data and payload:
        raise typer.BadParameter("give one of --data and --payload")
    if endpoint and protocol:
        raise typer.BadParameter("give one of --endpoint and --protocol: an endpoint has its own")
    assigned = dict(_parse_assignment(text) for text in assign or ())
    definitions = KnownDefinitions.read(registry)
    definition = definitions.definition(message)
    _warn(definition.xid, definitions.contract.incomplete.get(definition.xid, ()))
    target = definitions.endpoint(endpoint) if endpoint else {"protocol": protocol} if protocol else {}
    settings = AssignedInputs.sort(assigned, definition, target)
    content = read_file(payload) if payload else data_in(read_file(data), definition) if data else UNSET
    outbound = build_message(definition, settings.context, content, settings.overrides)
    chosen = form or ("event" if outbound.event is not None and not target else "message")
    if chosen == "event":
        _write_output(as_event(outbound) + b"\n")
        return
    bound = bind(outbound, target, settings.more)
    _write_output(as_request(bound, target) if chosen == "http" else as_record(bound) + b"\n")


@app.command("check")
def check(
    files: Annotated[list[str], Argument(metavar="FILE...", help="Files with messages, or -.")],
    registry: RegistryOption,
    group: Annotated[
        list[str] | None,
        Option("--group", metavar="XID", callback=add_slashes, help="Only this message group or endpoint; repeatable."),
    ] = None,
    endpoint: EndpointOption = "",
    as_json: Annotated[bool, Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check whether messages may be sent: each matches a definition, and its payload conforms.

    FILE has events as JSON, or messages as message build writes them, one a line or alone; - is standard input. The
    exit code is 0 if all may be sent, else 1. Definitions that cannot be used, and those whose basemessage is not
    there, are named on standard error.
    """
    from signalbook.cli.producing import KnownDefinitions, messages_in
    from signalbook.messages import validate_outbound

    definitions = KnownDefinitions.read(registry, [*(group or ()), *([endpoint] if endpoint else ())])
    target = definitions.endpoint(endpoint) if endpoint else None
    checked = 0
    refused: list[tuple[str, Rejected]] = []
    for name in files:
        for place, message in messages_in(name, read_file(name)):
            checked += 1
            refused += [(place, refusal) for refusal in validate_outbound(message, definitions.contract, target)]
    if as_json:
        rows = [{"source": place, **_encode_refusal(refusal)} for place, refusal in refused]
        doubtful = {**definitions.contract.broken, **definitions.contract.incomplete}
        doubts = {xid: [finding.to_json() for finding in findings] for xid, findings in doubtful.items()}
        echo(dump_json({"accepted": not refused, "checked": checked, "refused": rows, "definitions": doubts}))
    else:
        _print_refused(checked, refused)
        for xid, findings in definitions.contract.broken.items():
            echo(plain(f"{xid} cannot be used: {'; '.join(map(str, findings))}"), err=True)
        for xid, findings in definitions.contract.incomplete.items():
            _warn(xid, findings)
    if refused:
        raise typer.Exit(1)


def _warn(xid: str, findings: Iterable[Finding]) -> None:
    for finding in findings:
        echo(plain(f"warning: {xid}: {finding}"), err=True)


def _encode_refusal(refusal: Rejected) -> JSONObject:
    violations = [finding.to_json() for finding in refusal.violations]
    return {"reason": refusal.reason.value, "violations": violations, "candidates": list(refusal.candidates)}


def _print_refused(checked: int, refused: Sequence[tuple[str, Rejected]]) -> None:
    for place, refusal in refused:
        meant = f" of {refusal.candidates[0]}" if len(refusal.candidates) == 1 else ""
        echo(plain(f"refused  {place}  {refusal.reason.value}{meant}"))
        for finding in refusal.violations:
            echo(plain(f"  {finding}"))
    places = len({place for place, _ in refused})
    echo(f"{checked} checked: {checked - places} may be sent, {places} may not")


def _parse_assignment(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--set")
    return name, value


def _write_output(content: bytes) -> None:
    sys.stdout.buffer.write(content)
    sys.stdout.flush()
