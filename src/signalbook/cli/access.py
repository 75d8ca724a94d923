"""``signalbook access`` and ``signalbook whoami``: who may do what, in a database or by a server."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Protocol

import typer
from typer import Argument, Option

from signalbook import settings
from signalbook.cli.console import CommandGroup, echo, plain, print_json, say
from signalbook.cli.registry import (
    DbOption,
    JsonOption,
    RunningServerOption,
    ServerOption,
    choose_server,
    describe_registry,
    find_running_server,
    open_client,
    open_part,
    read_xid,
)
from signalbook.errors import SignalbookError
from signalbook.values import JSON, JSONObject

if TYPE_CHECKING:
    from signalbook.access.policy import Policy
    from signalbook.client import Client
    from signalbook.engine.engine import Engine

PolicyArgument = Annotated[
    Path, Argument(metavar="FILE", help="A policy, JSON or YAML; - is standard input.", show_default=False)
]

app: Final = CommandGroup(help="The access policy: who may do what.", no_args_is_help=True)


_ReadModel = Callable[[], JSONObject | None]


class _Access(Protocol):
    """The policy of a registry, whether a server has it or this process."""

    def policy(self) -> JSONObject: ...

    def put(self, policy: JSON, *, new: bool = False) -> JSONObject: ...

    def explain(self, who: list[str], what: str, xid: str) -> JSONObject: ...

    def end_sessions(self, subject: str) -> int: ...


@app.command("init")
def init(
    who: Annotated[list[str], Argument(metavar="WHO...", help="Administrators: subject:NAME, group:NAME or token:ID.")],
    server: ServerOption = None,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Put a first policy in force: WHO may do everything, whoever is authenticated may read, nobody else anything.

    Where there is a policy already, nothing is changed.
    """
    from signalbook.access.policy import check_principals

    try:
        check_principals(who)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="WHO") from None
    rules = [{"who": who, "role": "administrator"}, {"who": ["authenticated"], "role": "reader"}]
    with _open(server, db, create=True) as (access, _):
        _show_put(access.put({"rules": rules}, new=True), describe_registry(server, db), json)


@app.command("show")
def show(server: ServerOption = None, db: DbOption = None) -> None:
    """Print the policy as JSON, as it was written."""
    with _open(server, db) as (access, _):
        print_json(access.policy())


@app.command("set")
def put_policy(
    file: PolicyArgument, server: ServerOption = None, db: DbOption = None, json: JsonOption = False
) -> None:
    """Put the policy in FILE in force, on all servers, with their next request.

    It is refused as a whole if anything is wrong with it, or if nobody could change it afterwards. With --db that is
    for whoever may write to the database, also where nobody else may.
    """
    policy = _read_policy_file(file)
    with _open(server, db) as (access, _):
        put = access.put(policy)
    _show_put(put, describe_registry(server, db), json)
    _warn(put.get("warnings", ()))


@app.command("check")
def check(file: PolicyArgument, server: ServerOption = None, db: DbOption = None) -> None:
    """Say what is wrong with the policy in FILE, and what is odd about it: for policies in git.

    Patterns are checked against the model of the registry that --server, --db or SIGNALBOOK_SERVER names. Without them,
    no registry is opened, and the model is the one that the setting model names.
    """
    from signalbook.access.control import check_lockout
    from signalbook.access.decisions import UNRESTRICTED
    from signalbook.access.policy import read_policy
    from signalbook.access.review import list_warnings
    from signalbook.engine.engine import load_model_source

    policy = read_policy(_read_policy_file(file))
    check_lockout(policy, UNRESTRICTED)
    say(f"{file}: a policy of {len(policy.rules)} rules")
    if choose_server(server, db) is None and db is None:
        _warn(list_warnings(policy, load_model_source(settings.load(environ=os.environ).model)))
        return
    with _open(server, db) as (_, model):
        _warn(list_warnings(policy, model()))


@app.command("explain")
def explain(
    who: Annotated[
        str, Argument(metavar="WHO", help="Such as subject:pat,group:payments, token:ID, authenticated or anyone.")
    ],
    action: Annotated[str, Argument(metavar="WHAT", help="An action: list, read, create, update, delete, ...")],
    xid: Annotated[str, Argument(metavar="XID", help="An entity or collection; / is the Registry.")],
    server: ServerOption = None,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Say whether WHO may do WHAT on XID, and by which rules. Ends with 1 if not.

    Somebody has a subject or a token, or both, and any number of groups, with commas between them.
    """
    from signalbook.access.policy import split_principals

    with _open(server, db) as (access, _):
        explanation = access.explain(split_principals(who), action, str(read_xid(xid, "XID")))
    if json:
        print_json(explanation)
    else:
        echo(f"{'allowed' if explanation['allowed'] else 'denied'}: {plain(explanation['reason'])}")
        for rule in (*explanation["denying"], *explanation["allowing"]):
            echo(f"  {_format_rule(rule)}")
    raise typer.Exit(0 if explanation["allowed"] else 1)


def whoami(
    server: RunningServerOption = None,
    xid: Annotated[str, Option("--on", metavar="XID", help="What may be done on this.")] = "/",
    json: JsonOption = False,
) -> None:
    """Say who one is to a server, and what one may do there."""
    with open_client(find_running_server(server)) as client:
        identity = client.access.whoami(str(read_xid(xid, "--on")))
    if json:
        print_json(identity)
        return
    texts = {
        "name": identity["name"],
        "groups": ", ".join(identity["groups"]),
        "token": identity.get("token", ""),
        "scopes": ", ".join(identity.get("scopes", ())),
        f"on {identity['xid']}": ", ".join(identity["may"]) or "nothing",
        "somewhere": ", ".join(identity["somewhere"]) or "nothing",
    }
    for name, text in texts.items():
        if text:
            echo(f"{name}: {plain(text)}")
    if not identity["restricted"]:
        say("There is no policy in force: everybody may do everything.", style="yellow")


@app.command("end-sessions")
def end_sessions(
    name: Annotated[str, Argument(metavar="NAME", help="The subject alone, such as pat.")],
    server: ServerOption = None,
    db: DbOption = None,
) -> None:
    """Log NAME out of the explorer, in all browsers: at once, and on all servers. API tokens stay as they are."""
    with _open(server, db) as (access, _):
        ended = access.end_sessions(name)
    say(f"{ended} sessions of {plain(name)} have ended")


class _LocalAccess:
    """The access of a database. Whoever may write to it may do everything."""

    def __init__(self, engine: Engine, given: settings.Settings) -> None:
        from signalbook.access.control import AccessControl

        self._engine = engine
        self._control = AccessControl(engine.store, given)

    def policy(self) -> JSONObject:
        return self._read_policy().document

    def end_sessions(self, subject: str) -> int:
        with self._engine.writing() as session:
            return session.end_sessions(subject)

    def put(self, policy: JSON, *, new: bool = False) -> JSONObject:
        from signalbook.access.base import Action
        from signalbook.access.decisions import UNRESTRICTED
        from signalbook.access.policy import read_policy
        from signalbook.access.review import list_warnings, with_warnings

        new_policy = read_policy(policy)
        with self._engine.writing() as session:
            if new and self._control.is_stored(session.transaction):
                raise SignalbookError(
                    "there is a policy already: see signalbook access show, replace it by access set FILE"
                )
            self._control.put(session.transaction, new_policy, by=UNRESTRICTED)
            session.record(Action.ADMINISTER, "/access")
            model = session.configuration.model.document
        return with_warnings(new_policy, list_warnings(new_policy, model))

    def explain(self, who: list[str], what: str, xid: str) -> JSONObject:
        from signalbook.access.base import ACTIONS
        from signalbook.xid import Xid

        if what not in ACTIONS:
            raise typer.BadParameter(f"{what!r} is none of {', '.join(ACTIONS)}", param_hint="WHAT")
        policy = self._read_policy()
        try:
            identity = self._control.identity(who)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="WHO") from None
        question = {"who": ",".join(who), "what": what, "xid": xid}
        return {**question, **policy.explain(identity, ACTIONS[what], Xid.parse(xid)).to_json(policy)}

    def _read_policy(self) -> Policy:
        policy = self._control.current()
        if policy is None:
            raise SignalbookError("there is no policy: make one by signalbook access init, or access set FILE")
        return policy


def _open(
    server: str | None, db: str | None, *, create: bool = False
) -> AbstractContextManager[tuple[_Access, _ReadModel]]:
    """Open the policy of the registry that the options name, with a function that returns its model.

    The function returns None if the caller may not read the model.
    """
    return open_part(
        server,
        db,
        remote=lambda client: (client.access, partial(_read_remote_model, client)),
        local=lambda engine, given: (_LocalAccess(engine, given), partial(_read_local_model, engine)),
        create=create,
    )


def _read_remote_model(client: Client) -> JSONObject | None:
    from signalbook.client import Refused

    try:
        return client.model()
    except Refused:
        return None


def _read_local_model(engine: Engine) -> JSONObject | None:
    with engine.reading() as view:
        return view.model.document


def _read_policy_file(file: Path) -> JSON:
    from signalbook.documents import parse_document, read_document

    if str(file) == "-":
        return parse_document(sys.stdin.buffer.read(), name="standard input", unique=True)[0]
    return read_document(file, unique=True)[0]


def _show_put(policy: JSONObject, place: str, json: bool) -> None:
    if json:
        print_json(policy)
    else:
        say(f"a policy of {len(policy['rules'])} rules is in force in {plain(place)}")


def _warn(warnings: Iterable[str]) -> None:
    """Say what is odd about a policy that can be used."""
    for warning in warnings:
        say(f"warning: {plain(warning)}", style="yellow")


def _format_rule(rule: JSONObject) -> str:
    """Return a rule on a line."""
    effect = "is " + rule["role"] if "role" in rule else ""
    for name, words in (("allow", "may"), ("deny", "must not")):
        effect = f"{words} {', '.join(rule[name])}" if name in rule else effect
    where = f" on {', '.join(rule['on'])}" if "on" in rule else ""
    description = f" ({rule['description']})" if rule.get("description") else ""
    return plain(f"rule {rule['rule']}: {', '.join(rule['who'])} {effect}{where}{description}")


def login(
    server: Annotated[str, Argument(metavar="URL", help="The registry.")],
    issuer: Annotated[str, Option("--issuer", metavar="URL", help="The issuer, if not the registry's.")] = "",
    client_id: Annotated[str, Option("--client-id", metavar="ID", help="The client, if not the registry's.")] = "",
    scope: Annotated[str, Option("--scope", metavar="TEXT", help="The scope to ask for, if not the registry's.")] = "",
) -> None:
    """Log in to the registry at URL with a browser, on this machine or another one.

    The tokens are kept in a file that only you can read, are used by all commands for that registry, and renewed.
    """
    from signalbook.client.login import log_in
    from signalbook.uris import without_user

    def show(by: str, audience: str, where: str, code: str) -> None:
        say(f"{plain(by)} will give a token for {plain(audience or without_user(server))}.")
        say(f"Open {plain(where)} in a browser and confirm the code {plain(code)}")

    login_issuer = log_in(server, show, issuer=issuer, client=client_id, scope=scope)
    say(f"Logged in to {plain(without_user(server))} by {plain(login_issuer)}.")


def logout(server: Annotated[str, Argument(metavar="URL", help="The registry.")]) -> None:
    """Forget the login for the registry at URL."""
    from signalbook.client.login import log_out
    from signalbook.uris import without_user

    if not log_out(server):
        raise SignalbookError(f"there is no login for {without_user(server)}")
