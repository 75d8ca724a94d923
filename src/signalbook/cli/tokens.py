"""``signalbook token``: API tokens made, listed and revoked, in a database or by a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Protocol

import typer
from typer import Argument, Option

from signalbook import settings, values
from signalbook.cli.console import CommandGroup, echo, plain, print_json, say
from signalbook.cli.registry import DbOption, JsonOption, ServerOption, describe_registry, open_part
from signalbook.errors import SignalbookError
from signalbook.values import JSONObject, format_timestamp

if TYPE_CHECKING:
    from signalbook.client import Client
    from signalbook.engine.engine import Engine

_DAYS: Final = 90
_MAX_DAYS: Final = 36_525

app: Final = CommandGroup(help="API tokens: secrets with which programs prove who they are.", no_args_is_help=True)


_ReadPolicy = Callable[[], JSONObject | None]


class _Tokens(Protocol):
    """The tokens of a registry, whether a server has them or this process."""

    def __iter__(self) -> Iterator[JSONObject]: ...

    def add(self, fields: JSONObject) -> JSONObject: ...

    def delete(self, id: str) -> None: ...


@app.command("create")
def create(
    subject: Annotated[str, Argument(metavar="SUBJECT", help="Who it acts as, by the name that rules have.")],
    group: Annotated[
        list[str] | None, Option("--group", metavar="NAME", help="A group it is in; may be given again.")
    ] = None,
    scope: Annotated[
        list[str] | None,
        Option("--scope", metavar="ACTION", help="Narrow it to this action, such as read; may be given again."),
    ] = None,
    days: Annotated[
        int, Option("--days", metavar="N", min=0, max=_MAX_DAYS, help="Days until it expires; 0 is never.")
    ] = _DAYS,
    note: Annotated[str, Option("--note", metavar="TEXT", help="What it is for.")] = "",
    server: ServerOption = None,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Make an API token for SUBJECT and print it, once: only a hash of it is stored.

    It may do what the policy allows SUBJECT and its groups, at most what --scope names. As HTTP Basic the part between
    the underscores is the user, the part behind them the password.
    """
    expires = format_timestamp(values.now() + timedelta(days=days)) if days else None
    fields: JSONObject = {"subject": subject, "groups": group or [], "expires": expires, "note": note}
    with _open(server, db) as (tokens, policy):
        created = tokens.add(fields | ({"scopes": scope} if scope else {}))
        odd = _find_warnings(policy(), created)
    if json:
        print_json(created)
    else:
        echo(created["token"])
        say(
            f"API token {created['id']} of {plain(subject)} in {describe_registry(server, db)}; "
            f"{_describe_expiry(created)}. It is not shown again."
        )
    for warning in odd:
        say(f"warning: {plain(warning)}", style="yellow")


@app.command("list")
def list_tokens(server: ServerOption = None, db: DbOption = None, json: JsonOption = False) -> None:
    """Show all API tokens, a line each: id, subject, groups, scopes, expiry, last use, note. Secrets are not stored."""
    with _open(server, db) as (tokens, _):
        if json:
            print_json(list(tokens))
            return
        for token in tokens:
            groups, scopes = ",".join(token["groups"]), "all" if token["scopes"] is None else ",".join(token["scopes"])
            used = f"used {token['used']}" if token["used"] else "never used"
            columns = (token["id"], token["subject"], groups, scopes, _describe_expiry(token), used, token["note"])
            echo("\t".join(plain(str(text)) for text in columns).rstrip())


@app.command("revoke")
def revoke(
    id: Annotated[str | None, Argument(metavar="ID", help="Its id, the part between the underscores.")] = None,
    subject: Annotated[str | None, Option("--subject", metavar="NAME", help="All that act as NAME.")] = None,
    server: ServerOption = None,
    db: DbOption = None,
) -> None:
    """Make an API token, or all of somebody, worthless: at once, and on all servers."""
    if (id is None) is (subject is None):
        raise typer.BadParameter("name one token by its ID, or all tokens of somebody by --subject NAME")
    with _open(server, db) as (tokens, _):
        gone = [id] if id is not None else [token["id"] for token in tokens if token["subject"] == subject]
        if not gone:
            raise SignalbookError(f"no API token acts as {subject!r}: signalbook token list shows those there are")
        for token_id in gone:
            tokens.delete(token_id)
        if subject is not None:
            say(f"revoked: {', '.join(gone)}")


def _describe_expiry(token: JSONObject) -> str:
    if token["expires"] is None:
        return "never expires"
    return f"{'expired' if token['expired'] else 'expires'} {token['expires']}"


def _find_warnings(policy: JSONObject | None, token: JSONObject) -> list[str]:
    """Return warnings about a token under a policy."""
    from signalbook.access.policy import read_policy
    from signalbook.access.review import list_token_warnings

    return [] if policy is None else list_token_warnings(read_policy(policy), token["subject"], token["groups"])


def _open(server: str | None, db: str | None) -> AbstractContextManager[tuple[_Tokens, _ReadPolicy]]:
    """The tokens of the registry that the options name, and what reads its policy, None if there is none."""
    return open_part(
        server,
        db,
        remote=lambda client: (client.tokens, partial(_read_remote_policy, client)),
        local=lambda engine, given: (_StoredTokens(engine), partial(_read_local_policy, engine, given)),
        create=False,
    )


def _read_remote_policy(client: Client) -> JSONObject | None:
    # A token that was made is shown, whatever becomes of this.
    with suppress(SignalbookError):
        return client.access.policy()
    return None


def _read_local_policy(engine: Engine, loaded: settings.Settings) -> JSONObject | None:
    from signalbook.access.control import AccessControl

    with suppress(SignalbookError):
        policy = AccessControl(engine.store, loaded).current()
        return None if policy is None else policy.document
    return None


class _StoredTokens:
    """The tokens in a database that this process opens."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __iter__(self) -> Iterator[JSONObject]:
        """Iterate over all tokens by id."""
        from signalbook.access.tokens import MAX_TOKENS, describe

        with self._engine.store.read() as transaction:
            yield from map(describe, transaction.tokens.page("", MAX_TOKENS))

    def add(self, fields: JSONObject) -> JSONObject:
        """Make one."""
        from signalbook.access.tokens import describe, read_request

        request = read_request(fields, values.now())
        with self._engine.writing() as session:
            stored, text = session.create_token(request)
        return {**describe(stored), "token": text}

    def delete(self, id: str) -> None:
        """Revoke one."""
        with self._engine.writing() as session:
            if not session.revoke_token(id):
                raise SignalbookError(f"there is no API token {id!r}: signalbook token list shows those there are")
