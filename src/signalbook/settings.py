"""Every setting of Signalbook, as one table: it feeds the command line, the environment, the config file and the docs.

A setting's value comes from the first of: command line, ``SIGNALBOOK_<NAME>`` in the environment, the TOML config file,
the default here.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from signalbook.errors import SignalbookError

ENVIRONMENT_PREFIX: Final = "SIGNALBOOK_"
CONFIG_FILE: Final = "signalbook.toml"
_WORDS: Final[dict[type, str]] = {str: "text", int: "a whole number", float: "a number", tuple: "a list of texts"}


class SettingError(SignalbookError):
    """A setting that is unknown or has no usable value; the message names it and where it came from."""


def _setting(default: Any, description: str, *, option: str | None = None) -> Any:
    return field(default=default, metadata={"help": description, "option": option})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings. Type, default and help text of each field make the table."""

    host: str = _setting("127.0.0.1", "Address the server listens on.")
    port: int = _setting(8080, "Port the server listens on.")
    db: str = _setting(
        "sqlite:///signalbook.db", "Database URL: sqlite:///FILE or postgresql://user:password@host/name."
    )
    base_url: str = _setting("", "Public URL of the registry root; empty takes scheme and host of each request.")
    allow_hosts: tuple[str, ...] = _setting(
        (),
        "Host names accepted in requests to a server on loopback, besides localhost and the host of base_url.",
    )
    allow_origins: tuple[str, ...] = _setting(
        (), "Origins (https://HOST or https://HOST:PORT) of web pages that may write; all pages may read."
    )
    registry_id: str = _setting("signalbook", "The registryid given to a new registry.")
    model: str = _setting(
        "default",
        "Model of a new registry: default, spec (the specification's own, unchanged), empty, or a model file.",
    )
    capabilities: str = _setting("", "Capabilities to set at start: all, or a JSON file; empty leaves them unchanged.")
    domain_rules: str = _setting(
        "warn", "What to do with messages and endpoints that break domain rules: off, warn or reject."
    )
    incompatible_changes: str = _setting(
        "warn",
        "What to do with a document that is incompatible with the one it replaces: off, warn or reject.",
    )
    default_compatibility: str = _setting(
        "", "Compatibility rule of new schemas that state none, such as backward; empty gives them none."
    )
    workers: int = _setting(1, "Server processes.")
    threads: int = _setting(8, "Threads in a server process that run requests.")
    max_body_bytes: int = _setting(64 * 1024 * 1024, "Largest request body accepted, in bytes.")
    max_response_bytes: int = _setting(
        256 * 1024 * 1024, "Largest response, in bytes; a larger one is the error too_large."
    )
    page_size: int = _setting(0, "Members of a collection per page when a request has no limit; 0 shows all.")
    max_page_size: int = _setting(10_000, "Most members of a collection per page, whatever limit a request has.")
    max_depth: int = _setting(64, "Deepest nesting of objects and arrays accepted in JSON.")
    max_json_values: int = _setting(
        1_000_000, "Most values (members of objects and arrays) accepted in a JSON body; each takes some 100 bytes."
    )
    max_work: int = _setting(
        100_000_000,
        "Most steps (bytes read, parts compared) to check the documents of a write; more is the error too_complex; "
        "0 is no limit.",
    )
    work_timeout: float = _setting(
        60.0, "Seconds that this check may take; longer is the error server_busy; 0 is no limit."
    )
    request_timeout: float = _setting(60.0, "Seconds a request may wait for a database lock before server_busy.")
    body_timeout: float = _setting(60.0, "Seconds a request body may take to arrive.")
    answer_timeout: float = _setting(600.0, "Seconds a client may take to read a large response.")
    event_retention: float = _setting(0.0, "Days that change events are kept; 0 keeps all of them.")
    from_folder: str = _setting(
        "", "Folder of documents to serve as a read-only registry, instead of a database.", option="from"
    )
    reload_seconds: float = _setting(
        2.0, "Seconds between checks of that folder, and of access_file, for changes; 0 checks at SIGHUP only."
    )
    allow_fetch: tuple[str, ...] = _setting(
        (), "Hosts (HOST or HOST:PORT) that models may include documents from; none by default."
    )
    max_entity_bytes: int = _setting(1 << 20, "Most bytes of an entity's attributes, as JSON and without its document.")
    max_group_resources: int = _setting(0, "Most Resources in a Group, not counting their Versions; 0 is no limit.")
    max_group_versions: int = _setting(0, "Most Versions in a Group, of all its Resources together; 0 is no limit.")
    max_group_bytes: int = _setting(0, "Most bytes of documents in a Group, summed over all Versions; 0 is no limit.")
    max_pipelines: int = _setting(1000, "Most pipelines that may report their batches.")
    max_reports: int = _setting(1000, "Reports kept for each pipeline, newest first.")
    max_subscriptions: int = _setting(10_000, "Most subscriptions.")
    allow_sinks: tuple[str, ...] = _setting(
        (), "Hosts (HOST or HOST:PORT) and networks (CIDR) that may receive events, besides public addresses."
    )
    sink_consent: str = _setting(
        "required", "Whether webhooks must first consent to deliveries (OPTIONS): required or assumed."
    )
    sink_timeout: float = _setting(10.0, "Seconds a sink may take for each response, connecting included.")
    sink_folder: str = _setting("", "Folder for file sinks (file:NAME); without one they are refused.")
    deliveries: str = _setting("on", "Whether this server delivers events to sinks: on, or off if others do.")
    delivery_days: float = _setting(1.0, "Days a sink may accept nothing before its subscription is suspended.")
    key_file: str = _setting(
        "", "File of the keys that encrypt stored secrets; empty creates one beside an SQLite database."
    )
    strict_openapi: str = _setting(
        "off", "Whether a schema group can only be created, never updated, through the Schema Registry API: on or off."
    )
    confluent_group: str = _setting(
        "default", "Schema group that is the default context of the Confluent-compatible API."
    )
    confluent_port: int = _setting(
        0, "Port with the Confluent-compatible API at its root, for clients that need it there; 0 is none."
    )
    ui: str = _setting("on", "Whether the explorer is served at /ui: on or off.")
    pipeline_late_hours: float = _setting(
        24.0, "Hours without a new batch after which the explorer shows a pipeline as late; 0 is never."
    )
    pipeline_failing_share: float = _setting(
        0.01,
        "Share of dead letters in the newest batch, from 0 to 1, from which the explorer shows a pipeline as failing.",
    )
    follow: tuple[str, ...] = _setting(
        (), "Registries to copy from: URL, URL#XID for a part, URL#XID=NAME for a group under another name."
    )
    push: tuple[str, ...] = _setting(
        (), "Registries to copy to: URL, URL#XID for a part, URL#XID=NAME for a group under another name there."
    )
    follow_seconds: float = _setting(
        60.0, "Seconds between comparisons with a followed registry that has no change feed; it may notify sooner."
    )
    follow_authorities: tuple[str, ...] = _setting(
        (), "Authorities (URLs) that copies from followed registries may claim; empty allows any."
    )
    access: str = _setting(
        "", "Who may do what: open allows everything to everybody; empty applies the policy, if there is one."
    )
    access_file: str = _setting(
        "", "JSON or YAML file with the access policy, used instead of the one stored by PUT /access."
    )
    copies: str = _setting("accept", "What to do with copies that replication writes here: accept or refuse.")
    audit: str = _setting(
        "auto", "Whether writes are recorded in the audit: on, off, or auto, which is on where access is configured."
    )
    audit_days: float = _setting(365.0, "Days that entries of the audit are kept; 0 keeps all of them.")
    audit_log: str = _setting(
        "", "File that entries of the audit are written to as lines of JSON; - is standard output."
    )
    audit_reads: str = _setting("off", "Whether reads are written to audit_log, too: on or off. They are never stored.")
    limits: str = _setting(
        "auto", "Whether the limits on callers apply: on, off, or auto, which is on where access is configured."
    )
    limit_requests: int = _setting(
        2000, "Requests a second of each identity or anonymous address; ten times as many at once; 0 is no limit."
    )
    limit_writes: int = _setting(
        1000, "Writes a second of each identity or anonymous address; ten times as many at once; 0 is no limit."
    )
    limit_reads: int = _setting(
        6, "Reads of many entities that one identity may run at the same time; further ones wait; 0 is no limit."
    )
    limit_logins: int = _setting(
        20,
        "Failed logins of an address or a name before each further one doubles a waiting time; 0 is no limit.",
    )
    oidc_issuers: tuple[str, ...] = _setting(
        (), "Issuers whose JWTs are accepted as bearer tokens: the exact URLs in their iss claim."
    )
    oidc_audience: tuple[str, ...] = _setting(
        (), "Names of this server at the issuer; a JWT must have one of them as its audience."
    )
    oidc_algorithms: tuple[str, ...] = _setting(
        ("RS256", "ES256", "PS256", "EdDSA"), "Algorithms that a JWT may be signed with."
    )
    oidc_subject_claim: str = _setting("sub", "Claim of a JWT that names the subject; dots lead into objects.")
    oidc_groups_claim: str = _setting("groups", "Claim of a JWT that lists groups; dots lead into objects.")
    oidc_leeway: float = _setting(30.0, "Seconds by which the clock of an issuer may differ.")
    oidc_client_id: str = _setting("", "Client id with which signalbook login asks an issuer for tokens.")
    oidc_scope: str = _setting("openid offline_access", "Scope that signalbook login asks for.")
    login: str = _setting(
        "on",
        "How people log in to the explorer: on (at login_issuer and with API tokens), issuer, tokens, or off.",
    )
    login_issuer: str = _setting("", "Issuer at which people log in, one of oidc_issuers; empty takes the first.")
    login_client_id: str = _setting("", "Client id of this server at that issuer, for the code flow.")
    login_client_secret: str = _setting(
        "", "Secret of that client, or file:PATH with the secret; empty for a public client."
    )
    login_scope: str = _setting("openid profile", "Scope that the code flow asks for; it must contain openid.")
    session_hours: float = _setting(8.0, "Hours after which a login to the explorer ends.")
    trusted_proxies: tuple[str, ...] = _setting(
        (),
        "Addresses and networks (CIDR) of proxies that may state a request's user and address (X-Forwarded-For).",
    )
    proxy_user_header: str = _setting("", "Header in which a trusted proxy names the user.")
    proxy_groups_header: str = _setting("", "Header in which a trusted proxy lists the user's groups, with commas.")
    tls_cert: str = _setting("", "File with the server's certificate chain (PEM); the server then speaks HTTPS.")
    tls_key: str = _setting("", "File with the key of that certificate (PEM), unless it is in the same file.")
    tls_client_ca: str = _setting(
        "", "File of CA certificates (PEM): a client with a certificate of theirs is authenticated by it."
    )
    log_level: str = _setting("info", "Least severe log line written: debug, info, warning or error.")
    log_format: str = _setting("text", "Format of log lines: text, or json for log collectors.")


def names() -> tuple[str, ...]:
    """Names of all settings, in the order of the table."""
    return tuple(f.name for f in fields(Settings))


def help_for(name: str) -> str:
    """The help text of setting ``name``."""
    return str(Settings.__dataclass_fields__[name].metadata["help"])


def option_for(name: str) -> str:
    """The option of ``signalbook serve`` for setting ``name``."""
    option = Settings.__dataclass_fields__[name].metadata["option"] or name
    return f"--{option.replace('_', '-')}"


def load(
    options: Mapping[str, object] | None = None, *, environ: Mapping[str, str] | None = None, config: Path | None = None
) -> Settings:
    """Return settings from ``options`` (command line; ``None`` values count as absent), ``environ``, and a TOML file.

    Without ``config`` a ``signalbook.toml`` in the working directory is read if there is one.
    Raises ``SettingError`` for an unknown name in the file or a value of the wrong type.
    """
    values: dict[str, object] = {}
    path = config or Path(CONFIG_FILE)
    if config is not None or path.is_file():
        values.update(_read_file(path))
    setting_names = set(names())
    for name, text in (environ or {}).items():
        setting = name.removeprefix(ENVIRONMENT_PREFIX).lower()
        if name.startswith(ENVIRONMENT_PREFIX) and setting in setting_names:
            values[setting] = _convert(setting, text, f"environment variable {name}")
    values.update({name: _merge_option(value) for name, value in (options or {}).items() if value is not None})
    unknown = set(values) - setting_names
    if unknown:
        raise SettingError(f"unknown setting {sorted(unknown)[0]!r}; there are: {', '.join(names())}")
    return Settings(**values)  # type: ignore[arg-type]


def _read_file(path: Path) -> dict[str, object]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"cannot read config file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"config file {path} is not TOML: {error}") from None
    setting_names = names()
    for name in document:
        if name not in setting_names:
            raise SettingError(f"config file {path}: unknown setting {name!r}; there are: {', '.join(setting_names)}")
    return {name: _convert(name, value, f"config file {path}") for name, value in document.items()}


def _convert(name: str, value: object, origin: str) -> object:
    kind: type = type(getattr(Settings, name))
    if kind is tuple:
        members = _split_members(value) if isinstance(value, str) else _convert_list(value)
        if isinstance(members, tuple) and all(isinstance(item, str) for item in members):
            return members
    try:
        # A bool would pass as an int: true is no port.
        if kind is not tuple and isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return kind(value)
    except ValueError:
        pass
    raise SettingError(f"{origin}: {name} is {_WORDS[kind]}, not {value!r}")


def _merge_option(value: object) -> object:
    """A list may come in one option, in several, or both."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(member for item in value for member in _split_members(item))
    return _convert_list(value)


def _split_members(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _convert_list(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
