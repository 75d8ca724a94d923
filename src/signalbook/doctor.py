"""Check whether a server with given settings would work, and give advice if not. The checks change nothing.

If a check fails, checks that depend on it are left out: all of them after an invalid setting, those of the database's
content if the database cannot be used. Sinks and registries must be reachable from the machine that runs the checks.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import httpcore
from cryptography import x509

from signalbook.access.base import AuthenticationUnavailable
from signalbook.access.control import OPEN, AccessControl, read_policy_file
from signalbook.access.issuers import IssuerError, TokenVerifier, fetch_keys
from signalbook.access.login import LoginClient, find_secret_file
from signalbook.access.policy import Policy
from signalbook.access.review import list_warnings
from signalbook.api.kernel.origins import is_loopback
from signalbook.client import Unreachable
from signalbook.engine.engine import Engine
from signalbook.engine.write.searchindex import is_complete
from signalbook.errors import SignalbookError
from signalbook.events.delivery.deliveries import sink_policy
from signalbook.events.sinks.base import SinkPolicy, find_sink
from signalbook.events.subscription import Subscription
from signalbook.events.subscriptions.store import SubscriptionStore, keyring
from signalbook.fetching import Deadline, FetchError, connect, reachable
from signalbook.replication.following import Peer, parse_peers
from signalbook.replication.opening import open_target
from signalbook.server import ServerError, check_exposure, check_settings
from signalbook.settings import CONFIG_FILE, Settings
from signalbook.storage import open_store
from signalbook.storage.inspection import DatabaseState, find_damage, inspect
from signalbook.storage.schema import REVISION
from signalbook.storage.store import Store
from signalbook.uris import is_secure
from signalbook.xid import ROOT

OK: Final = "ok"
WARNING: Final = "warning"
ERROR: Final = "error"
_SKEW: Final = 1.0
_MUCH_SKEW: Final = 10.0
"""Seconds. A larger difference between two clocks is an error; one of more than ``_SKEW`` seconds is a warning."""
_LITTLE_SPACE: Final = 1 << 30
_SOON: Final = timedelta(days=14)
_ASKED_AT_ONCE: Final = 16
_MOST_SINKS: Final = 500
_PORTS: Final = {
    "http": 80,
    "https": 443,
    "kafka": 9092,
    "kafkas": 9093,
    "mqtt": 1883,
    "mqtts": 8883,
    "nats": 4222,
    "tls": 4222,
    "amqp": 5672,
    "amqps": 5671,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of checking ``subject``: its ``state``, what was ``found``, and what to do if it is not ``ok``."""

    subject: str
    state: Literal["ok", "warning", "error"]
    found: str
    advice: str = ""


def examine(settings: Settings) -> Iterator[Check]:
    """Run the checks, and yield the result of each as soon as it is known."""
    try:
        check_settings(settings)
    except SignalbookError as error:
        yield Check(subject="settings", state=ERROR, found=str(error), advice="correct the setting")
        return
    yield Check(subject="settings", state=OK, found="all settings have usable values")
    yield from _check_files(settings)
    yield from _check_keys(settings)
    yield from _check_certificate(settings)
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as threads:
        yield from threads.map(_check_issuer, settings.oidc_issuers)
        yield from _check_login(settings)
        yield from threads.map(lambda peer: _check_peer(peer, settings), parse_peers(settings))
    if settings.from_folder:
        yield _check_folder(Path(settings.from_folder))
        return
    path = _find_sqlite_file(settings)
    if path is not None:
        yield _check_space(path)
        if not path.exists():
            yield Check(subject="database", state=OK, found=f"{path} is not there yet: the first start makes it")
            yield _check_access(None, settings)
            return
    try:
        state = inspect(settings.db, timeout=min(settings.request_timeout, 10.0))
    except SignalbookError as error:
        yield Check(
            subject="database",
            state=ERROR,
            found=str(error),
            advice="do as it says; then run this again",
        )
        return
    yield _check_schema(state)
    yield from _check_clock(state)
    if state.current:
        damage = list(_check_contents(settings))
        yield from damage
        if any(check.state == ERROR for check in damage):
            return
        with closing(open_store(settings.db, timeout=settings.request_timeout)) as store:
            yield from _check_registry(store, settings)


def _check_schema(state: DatabaseState) -> Check:
    if state.current:
        return Check(subject="database", state=OK, found=f"{state.where} can be read and written, schema {REVISION}")
    if state.revision is None:
        return Check(subject="database", state=OK, found=f"{state.where} is empty: the first start makes the tables")
    if state.revision > REVISION:
        text = f"{state.where} has schema {state.revision}, this program knows {REVISION} at most"
        return Check(subject="database", state=ERROR, found=text, advice="update Signalbook, or restore a backup")
    text = f"{state.where} has schema {state.revision}; the next start migrates it to {REVISION}"
    return Check(subject="database", state=WARNING, found=text, advice="make a backup before: signalbook backup FILE")


def _check_contents(settings: Settings) -> Iterator[Check]:
    """Read the whole database, because a damaged database may work for a long time before anybody notices."""
    advice = "stop the server, keep a copy of the database, and restore a backup: signalbook restore FILE"
    damaged = False
    try:
        for damage in find_damage(settings.db, timeout=settings.request_timeout):
            damaged = True
            yield Check(subject="contents", state=ERROR, found=f"the database is damaged: {damage}", advice=advice)
    except SignalbookError as error:
        damaged = True
        yield Check(subject="contents", state=ERROR, found=str(error), advice="do as it says; then run this again")
    if not damaged:
        yield Check(subject="contents", state=OK, found="everything in the database can be read and belongs together")


def _check_clock(state: DatabaseState) -> Iterator[Check]:
    skew = abs(state.skew)
    if skew > _SKEW:
        way = "ahead of" if state.skew > 0 else "behind"
        text = f"the database's clock is {skew:.1f} s {way} that of this machine"
        level: Literal["warning", "error"] = ERROR if skew > _MUCH_SKEW else WARNING
        yield Check(subject="clock", state=level, found=text, advice="keep both by NTP: systemctl status chrony")
    elif state.future > _SKEW:
        text = f"the newest change was made {state.future:.0f} s from now: a clock was, or is, wrong"
        yield Check(subject="clock", state=WARNING, found=text, advice="keep the clocks of all servers by NTP")
    else:
        yield Check(subject="clock", state=OK, found="it goes with the database")


def _check_space(path: Path) -> Check:
    folder = path.parent
    if not folder.is_dir():
        return Check(subject="disk", state=ERROR, found=f"there is no folder {folder}", advice="make it")
    free = shutil.disk_usage(folder).free
    state: Literal["ok", "warning"] = WARNING if free < _LITTLE_SPACE else OK
    text = f"{free / (1 << 30):.1f} GiB are free at {folder}"
    return Check(subject="disk", state=state, found=text, advice="free some space" if state == WARNING else "")


def _check_folder(folder: Path) -> Check:
    if folder.is_dir():
        return Check(subject="folder", state=OK, found=f"{folder} is there to be served")
    return Check(subject="folder", state=ERROR, found=f"there is no folder {folder}", advice="correct --from")


def _check_files(settings: Settings) -> Iterator[Check]:
    """Check that only the owner can read files with secrets, and that only the owner can write the policy file."""
    key_file = Path(settings.key_file) if settings.key_file else None
    database = _find_sqlite_file(settings)
    if database is not None:
        key_file = key_file or database.with_name(f"{database.name}.key")
    beside = [database, *(database.with_name(f"{database.name}-{end}") for end in ("wal", "shm"))] if database else []
    secret = [*beside, key_file, _parse_path(settings.tls_key), find_secret_file(settings), Path(CONFIG_FILE)]
    decides = [_parse_path(settings.access_file)]
    for path in (path for path in secret if path is not None and _is_there(path)):
        yield _check_mode(path, stat.S_IRWXG | stat.S_IRWXO, "others than its owner may read it", "600")
    for path in (path for path in decides if path is not None and _is_there(path)):
        yield _check_mode(path, stat.S_IWGRP | stat.S_IWOTH, "others than its owner may change it", "go-w")


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the folder must not be searched by this user
        return False


def _check_mode(path: Path, wrong: int, text: str, right: str) -> Check:
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    if not os.access(path, os.R_OK):
        belongs = f"{path} ({mode:03o}) is of user {status.st_uid}, and user {os.geteuid()} may not read it"
        return Check(
            subject="files", state=ERROR, found=belongs, advice=f"chown {os.geteuid()} {path}, or what is mounted there"
        )
    if mode & wrong:
        return Check(
            subject="files", state=WARNING, found=f"{path} ({mode:03o}): {text}", advice=f"chmod {right} {path}"
        )
    return Check(subject="files", state=OK, found=f"{path} is its owner's alone")


def _check_keys(settings: Settings) -> Iterator[Check]:
    try:
        keys = keyring(settings).keys()
    except SignalbookError as error:
        advice = "put the key file back, readable to the server's user, or correct key_file"
        yield Check(subject="keys", state=ERROR, found=str(error), advice=advice)
        return
    if keys:
        yield Check(subject="keys", state=OK, found="there is a key to encrypt secrets with")
    elif settings.db.startswith("postgresql") and not settings.key_file:
        advice = "make one for all servers, named by key_file: (umask 077; head -c 32 /dev/urandom | base64 > keys)"
        found_none = "no key file: subscriptions with secrets are refused"
        yield Check(subject="keys", state=WARNING, found=found_none, advice=advice)
    else:
        yield Check(subject="keys", state=OK, found="no key yet: the first secret makes one beside the database")


def _check_registry(store: Store, settings: Settings) -> Iterator[Check]:
    with store.read() as transaction:
        founded = transaction.entities.get(ROOT) is not None
        indexed = is_complete(transaction.index.state())
    yield _check_access(store, settings)
    if founded:
        yield _check_index(indexed=indexed)
        engine = Engine(store, settings=settings, prepare=False)
        yield from _check_policy(engine, settings)
        subscriptions = list(SubscriptionStore.of(engine, settings).all().values())
        yield from _check_sinks(subscriptions, sink_policy(settings))


def _check_index(*, indexed: bool) -> Check:
    if indexed:
        return Check(subject="search", state=OK, found="everything is in the index")
    advice = "signalbook migrate does it before, and shows how far it is"
    text = "not everything is in the index: the next start completes it, and serves no request before"
    return Check(subject="search", state=WARNING, found=text, advice=advice)


def _check_access(store: Store | None, settings: Settings) -> Check:
    exposed = not is_loopback(settings.host)
    try:
        policy = _find_policy(store, settings)
        check_exposure(settings, policy, exposed=exposed)
    except ServerError as error:
        text, advice = str(error).partition(". ")[0], "signalbook access init subject:NAME, or --host 127.0.0.1"
        return Check(subject="access", state=ERROR, found=text, advice=advice)
    except SignalbookError as error:
        return Check(subject="access", state=ERROR, found=str(error), advice="mend the policy")
    if policy is not None and settings.access != OPEN:
        return Check(subject="access", state=OK, found="a policy says who may do what")
    text = "everybody who reaches the port may do everything"
    if not exposed:
        return Check(subject="access", state=OK, found=f"{text}: it listens on {settings.host} alone")
    advice = "set a policy: signalbook access set FILE, or --access-file, and leave out access"
    return Check(subject="access", state=WARNING, found=text, advice=advice)


def _find_policy(store: Store | None, settings: Settings) -> Policy | None:
    """Return the policy that a server with these settings uses, or None if there is none."""
    if settings.access_file:
        # Read the file as the server does, without storing the policy.
        return read_policy_file(Path(settings.access_file))
    return None if store is None else AccessControl(store, settings).current()


def _check_policy(engine: Engine, settings: Settings) -> Iterator[Check]:
    """Yield warnings about the policy. An unusable policy is reported by ``_check_access``."""
    with suppress(SignalbookError):
        policy = _find_policy(engine.store, settings)
        with engine.reading() as view:
            policy_warnings = [] if policy is None else list_warnings(policy, view.model.document)
        for warning in policy_warnings:
            yield Check(subject="policy", state=WARNING, found=warning, advice="correct the rule")


def _check_certificate(settings: Settings) -> Iterator[Check]:
    """Check that the server's own certificate, and the CA certificates in its file, are valid now."""
    if not settings.tls_cert:
        return
    now, advice = datetime.now(UTC), "renew it: a running server takes the new files at SIGHUP"
    for certificate in x509.load_pem_x509_certificates(Path(settings.tls_cert).read_bytes()):
        begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        name = f"{certificate.subject.rfc4514_string() or 'a certificate'} in {settings.tls_cert}"
        if not begins <= now <= ends:
            text = f"{name} is valid from {begins:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M} UTC, not now"
            yield Check(subject="tls", state=ERROR, found=text, advice=advice)
        elif ends - now < _SOON:
            text = f"{name} expires at {ends:%Y-%m-%d %H:%M} UTC"
            yield Check(subject="tls", state=WARNING, found=text, advice=advice)
        else:
            yield Check(subject="tls", state=OK, found=f"{name} is valid until {ends:%Y-%m-%d}")


def _check_issuer(url: str) -> Check:
    try:
        fetch_keys(url)
    except IssuerError as error:
        advice = (
            "see that it runs, that this machine reaches it, and that oidc_issuers has its name: no token of its counts"
        )
        return Check(subject=f"issuer {url}", state=WARNING, found=f"it does not give its keys: {error}", advice=advice)
    return Check(subject=f"issuer {url}", state=OK, found="it gives its keys")


def _check_login(settings: Settings) -> Iterator[Check]:
    """Check that people can log in to the explorer, if that is configured at an issuer."""
    client = LoginClient(settings, TokenVerifier(settings))
    if not client.issuer:
        return
    subject = f"login at {client.issuer}"
    try:
        faults = client.faults()
    except AuthenticationUnavailable as error:
        advice = "see that it runs and that this machine reaches it: nobody logs in there meanwhile"
        yield Check(subject=subject, state=WARNING, found=str(error), advice=advice)
        return
    for fault in faults:
        advice = "have the issuer take it for this client, or set login_scope, login_issuer"
        yield Check(subject=subject, state=WARNING, found=fault, advice=advice)
    root = settings.base_url.rstrip("/")
    if not is_secure(root or f"http{'s' if settings.tls_cert else ''}://{settings.host}"):
        advice = "set base_url to the https URL that people open"
        yield Check(subject=subject, state=WARNING, found="logging in takes https", advice=advice)
    elif not faults:
        where = f"{root}/ui/-/login/callback" if root else "that of each request, since base_url is empty"
        yield Check(subject=subject, state=OK, found=f"it has what logins take; the redirect URI is {where}")


def _check_sinks(subscriptions: list[Subscription], policy: SinkPolicy) -> Iterator[Check]:
    if len(subscriptions) > _MOST_SINKS:
        yield Check(subject="sinks", state=OK, found=f"{_MOST_SINKS} of {len(subscriptions)} subscriptions are tried")
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as threads:
        yield from threads.map(lambda one: _check_sink(one, policy), subscriptions[:_MOST_SINKS])


def _check_sink(subscription: Subscription, policy: SinkPolicy) -> Check:
    subject = f"subscription {subscription.id}"
    parts = urlsplit(subscription.sink)
    if subscription.fault:
        return Check(subject=subject, state=ERROR, found=subscription.fault, advice="put its key back, or update it")
    try:
        find_sink(subscription.protocol).check(subscription, policy)
        port = parts.port or _PORTS.get(parts.scheme)
        if not parts.hostname or port is None:
            return Check(subject=subject, state=OK, found=f"its sink ({subscription.protocol}) is allowed")
        address = reachable(parts.hostname, port, policy.allow, policy.timeout)
        connect(address, port, Deadline(policy.timeout)).close()
    except (FetchError, httpcore.TimeoutException, httpcore.NetworkError, OSError) as error:
        advice = "see that it runs, and that name server and firewall let this machine reach it"
        text = f"its sink at {parts.hostname} cannot be reached: {error or 'no answer'}"
        return Check(subject=subject, state=WARNING, found=text, advice=advice)
    except SignalbookError as error:
        return Check(subject=subject, state=ERROR, found=str(error), advice="update the subscription or the settings")
    return Check(subject=subject, state=OK, found=f"its sink at {parts.hostname}:{port} accepts connections")


def _check_peer(peer: Peer, settings: Settings) -> Check:
    """Check that the registry ``peer`` accepts the credentials in its URL, as replication will use them."""
    subject = f"registry {peer.shown}"
    try:
        with open_target(peer.url, timeout=settings.sink_timeout):
            return Check(subject=subject, state=OK, found="it answers, and lets us in")
    except Unreachable as error:
        advice = "see that it runs, and that name server and firewall let this machine reach it"
        return Check(subject=subject, state=WARNING, found=str(error), advice=advice)
    except SignalbookError as error:
        advice = "correct its URL, or the credentials in it"
        return Check(subject=subject, state=ERROR, found=str(error), advice=advice)


def _find_sqlite_file(settings: Settings) -> Path | None:
    name = settings.db.removeprefix("sqlite:///").partition("?")[0]
    return Path(name).absolute() if settings.db.startswith("sqlite:///") and name else None


def _parse_path(name: str) -> Path | None:
    return Path(name) if name else None
