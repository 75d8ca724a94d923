"""``signalbook subscribe`` and ``signalbook subscriptions``: where change events are delivered, and how that goes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer import Argument, Option

from signalbook.cli.console import CommandGroup, echo, plain, print_json
from signalbook.cli.registry import JsonOption, RunningServerOption, find_running_server, open_client
from signalbook.errors import SignalbookError
from signalbook.values import JSON, JSONError, JSONObject, parse_json

if TYPE_CHECKING:
    from signalbook.client.client import Subscriptions

_BY_SCHEME: Final = {
    **dict.fromkeys(("http", "https"), "HTTP"),
    **dict.fromkeys(("kafka", "kafkas"), "KAFKA"),
    **dict.fromkeys(("mqtt", "mqtts"), "MQTT5"),
    **dict.fromkeys(("nats", "tls"), "NATS"),
    **dict.fromkeys(("amqp", "amqps"), "AMQP"),
    "file": "FILE",
}

IdArgument = Annotated[str, Argument(metavar="ID", help="The subscription's id.")]

app: Final = CommandGroup(help="Where change events are delivered, and how that goes.", no_args_is_help=True)


def subscribe(
    sink: Annotated[str, Argument(metavar="SINK", help="Where events go.")],
    protocol: Annotated[str | None, Option("--protocol", metavar="NAME", help="Such as HTTP or MQTT3.")] = None,
    source: Annotated[str | None, Option("--source", metavar="URL", help="The API whose events are wanted.")] = None,
    type: Annotated[
        list[str] | None, Option("--type", metavar="TYPE", help="Only events of this type; repeatable.")
    ] = None,
    subject: Annotated[str | None, Option("--subject", metavar="PREFIX", help="Only subjects that begin so.")] = None,
    filter: Annotated[
        list[str] | None,
        Option(
            "--filter",
            "-f",
            metavar="SQL|JSON",
            help="Only what matches: CloudEvents SQL or a filter; repeatable, all have to.",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None, Option("--setting", metavar="NAME=VALUE", help="A setting of the protocol; repeatable.")
    ] = None,
    credential: Annotated[
        Path | None, Option("--credential", metavar="FILE", help="File with the credential for the sink, JSON.")
    ] = None,
    after: Annotated[
        int | None, Option("--after", metavar="POSITION", min=0, help="Begin behind this event, not now.")
    ] = None,
    server: RunningServerOption = None,
    json: JsonOption = False,
) -> None:
    """Subscribe SINK to change events of a server, and print the subscription's id.

    SINK is the URI of a web hook, or of a topic or queue at a broker. The scheme, or --protocol, says which.
    """
    filters = [_filter(text) for text in filter or ()] + ([{"prefix": {"subject": subject}}] if subject else [])
    subscription = {
        "sink": sink,
        "protocol": protocol or _guess_protocol(sink),
        "source": source,
        "types": type,
        "filters": filters,
        "protocolsettings": dict(_parse_setting(text) for text in setting or ()),
        "sinkcredential": _read_document(credential) if credential else None,
        "config": None if after is None else {"after": after},
    }
    with _open(server) as subscriptions:
        created = subscriptions.add({name: value for name, value in subscription.items() if value})
    _show_created(created, json)


@app.command("list")
def list_subscriptions(server: RunningServerOption = None, json: JsonOption = False) -> None:
    """Show all subscriptions, a line each: id, state, events delivered, sink, last error."""
    with _open(server) as subscriptions:
        if json:
            print_json(list(subscriptions))
            return
        for subscription in subscriptions:
            state = subscription.get("status", {})
            columns = (
                subscription["id"],
                state.get("state", ""),
                state.get("delivered", ""),
                subscription["sink"],
                state.get("lasterror"),
            )
            echo("\t".join(plain(str(text or "")) for text in columns).rstrip())


@app.command("show")
def show(id: IdArgument, server: RunningServerOption = None) -> None:
    """Show a subscription and the status of its deliveries as JSON."""
    with _open(server) as subscriptions:
        print_json(subscriptions.get(id))


@app.command("create")
def create(
    file: Annotated[Path, Argument(metavar="FILE", help="A subscription in JSON; - is standard input.")],
    server: RunningServerOption = None,
    json: JsonOption = False,
) -> None:
    """Create the subscription that a document says, and print its id."""
    document = _read_document(file)
    with _open(server) as subscriptions:
        created = subscriptions.add(document)
    _show_created(created, json)


@app.command("resume")
def resume(id: IdArgument, server: RunningServerOption = None) -> None:
    """Deliver again what was given up, from where it stopped."""
    with _open(server) as subscriptions:
        # Deliveries that were given up begin again when a subscription is replaced, be it by itself.
        subscriptions.replace(id, subscriptions.get(id))


@app.command("delete")
def delete(id: IdArgument, server: RunningServerOption = None) -> None:
    """End a subscription."""
    with _open(server) as subscriptions:
        subscriptions.delete(id)


def _show_created(subscription: JSONObject, json: bool) -> None:
    if json:
        print_json(subscription)
    else:
        echo(subscription["id"])


@contextmanager
def _open(server: str | None) -> Iterator[Subscriptions]:
    """Open the subscriptions of a running server. A database alone delivers nothing."""

    with open_client(find_running_server(server)) as client:
        yield client.subscriptions


def _guess_protocol(sink: str) -> str:
    scheme = sink.partition(":")[0].lower()
    if scheme not in _BY_SCHEME:
        raise typer.BadParameter(
            f"{sink!r}: what delivers to {scheme!r}? Name it with --protocol, or give a URI with one of the schemes"
            f" {', '.join(_BY_SCHEME)}",
            param_hint="SINK",
        )
    return _BY_SCHEME[scheme]


def _filter(text: str) -> JSON:
    if not text.startswith("{"):
        return {"sql": text}
    try:
        return parse_json(text)
    except JSONError as error:
        raise typer.BadParameter(f"this is no JSON: {error}", param_hint="--filter") from None


def _parse_setting(text: str) -> tuple[str, Any]:
    """A value is JSON if it can be read so, else the text itself."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--setting")
    try:
        return name, parse_json(value)
    except JSONError:
        return name, value


def _read_document(path: Path) -> JSONObject:
    content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    try:
        document = parse_json(content)
    except JSONError as error:
        raise SignalbookError(f"{path}: this is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise SignalbookError(f"{path}: this is no JSON object")
    return document
