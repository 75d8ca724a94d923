"""What to do where a contract leaves a choice (K-46), for all definitions or for some of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, get_args, get_type_hints

from signalbook.errors import SignalbookError

Setting = str | bool


class PolicyError(SignalbookError):
    """A setting that is none, or has a value it cannot have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Settings for the message group, endpoint or message definition ``xid`` that differ from those for all."""

    xid: str
    settings: tuple[tuple[str, Setting], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What to do where a contract leaves a choice (K-46).

    - ``on_no_match``: a message no definition fits is rejected, passed through as it is, or dropped;
    - ``on_ambiguous``: several definitions fit: reject, accept once for each (``all``), or accept for the most
      specific one where there is one (``best``, K-29); definitions that do not agree on it mean reject;
    - ``on_schema_violation``: reject, or accept with the violations as warnings (``tag``);
    - ``on_removed``: a definition past its ``deprecated.removal`` only warns, or rejects (K-33);
    - ``prefer_specific``: of several fitting definitions take the most specific before payloads are looked at (K-29),
      if all of them say so;
    - ``native_mapping``: a message that is no CloudEvent may fit a CloudEvents definition by its protocol options
      alone, and is made an event (K-26, K-35);
    - ``strict_delivery``: delivery details such as MQTT ``qos`` must fit too, and a message from a file fits no
      definition that names a protocol (K-27);
    - ``required_schema``: a definition without a payload schema is not enough (K-42);
    - ``on_duplicate_names``: an object of a JSON payload has a name twice: the last one counts, or the payload is
      rejected (RFC 8259, 4: names SHOULD be unique; CloudEvents 1.0.2 takes any JSON as data);
    - ``on_tombstone``: a record of Kafka with a key and no value, that is no event, deletes what has that key where a
      topic is compacted: it is rejected where the definition names a schema, as it has no payload, or dropped;
    - ``rescue``: what columns do not hold of a payload is kept in a column of its own, or dropped;
    - ``columns``: times, dates and decimals that payloads have as text or numbers get columns of their own types, or of
      those they are sent as; ``auto`` is as tables are already, and typed where there are none;
    - ``wire_prefix``: payloads begin with the number of the schema that wrote them, as Confluent's serializers have it
      (``payloads/content.py``);
    - ``unknown_fields``: what Protobuf's JSON has beside the fields of its message is a violation, or passed over, as
      it is in binary (``drop``).
    - ``on_broken_definition``: whoever holds a stream to definitions goes on without one that cannot be used
      (``leave_out``): its messages are rejected for that (K-44), and it is reported; or does not begin (``stop``).

    ``overrides`` are other settings for some groups or definitions; what is said of a definition counts more than what
    is said of its group. ``on_no_match`` is not among them: what fits no definition is no definition's.
    """

    on_no_match: Literal["dead_letter", "pass", "drop"] = "dead_letter"
    on_ambiguous: Literal["dead_letter", "all", "best"] = "dead_letter"
    on_schema_violation: Literal["dead_letter", "tag"] = "dead_letter"
    on_removed: Literal["warn", "dead_letter"] = "warn"
    prefer_specific: bool = False
    native_mapping: bool = False
    strict_delivery: bool = False
    required_schema: bool = False
    wire_prefix: Literal["none", "confluent"] = "none"
    on_duplicate_names: Literal["last", "dead_letter"] = "last"
    on_tombstone: Literal["dead_letter", "drop"] = "dead_letter"
    rescue: Literal["keep", "drop"] = "keep"
    columns: Literal["auto", "typed", "as_sent"] = "auto"
    unknown_fields: Literal["dead_letter", "drop"] = "dead_letter"
    on_broken_definition: Literal["leave_out", "stop"] = "leave_out"
    overrides: tuple[Override, ...] = ()

    @property
    def typed(self) -> bool:
        """Whether times, dates and decimals get columns of their own types."""
        return self.columns != "as_sent"

    def of(self, xid: str) -> Policy:
        """The settings for the definition ``xid``, without overrides."""
        if not self.overrides:
            return self
        places = _find_group(xid), xid.partition("/versions/")[0]
        chosen: dict[str, Any] = {}
        for place in places:
            chosen.update(pair for override in self.overrides if override.xid == place for pair in override.settings)
        return replace(self, overrides=(), **chosen)

    def unknown_overrides(self, definitions: Iterable[str]) -> tuple[str, ...]:
        """The xids of overrides that name none of these definitions, and no group of one."""
        if not self.overrides:
            return ()
        places = {place for xid in definitions for place in (xid, _find_group(xid))}
        return tuple(dict.fromkeys(override.xid for override in self.overrides if override.xid not in places))


def parse_policy(settings: Mapping[str, Any]) -> Policy:
    """A policy out of a section of a configuration: settings by name, and under xids objects of settings.

    Raises ``PolicyError``.
    """
    if not isinstance(settings, Mapping):
        raise PolicyError("policy: must be an object of settings")
    xids = [name for name in settings if str(name).startswith("/")]
    plain = {name: value for name, value in settings.items() if name not in xids}
    overrides = tuple(
        Override(xid=xid, settings=tuple(_check_settings(settings[xid], f"policy for {xid}", _BY_DEFINITION).items()))
        for xid in xids
    )
    return Policy(**_check_settings(plain, "policy", tuple(_SETTING_CHOICES)), overrides=overrides)


def parse_flags(flags: Iterable[str]) -> Policy:
    """The policy of ``flag_settings``. Raises ``PolicyError``."""
    return parse_policy(flag_settings(flags))


def flag_settings(flags: Iterable[str]) -> dict[str, Any]:
    """Texts like ``on_no_match=drop`` and ``/messagegroups/shop:on_removed=warn`` as a section of a configuration.

    Raises ``PolicyError`` for a text of another form.
    """
    settings: dict[str, Any] = {}
    for flag in flags:
        place, equals, value = flag.rpartition("=")
        xid, _, name = place.rpartition(":")
        if not equals or (xid and not xid.startswith("/")) or name.startswith("/"):
            raise PolicyError(f"policy {flag!r}: write NAME=VALUE, or XID:NAME=VALUE for a group or definition")
        (settings.setdefault(xid, {}) if xid else settings)[name] = value
    return settings


def _list_choices() -> dict[str, tuple[Setting, ...]]:
    hints = get_type_hints(Policy)
    names = [field.name for field in fields(Policy) if field.name != "overrides"]
    return {name: (True, False) if hints[name] is bool else get_args(hints[name]) for name in names}


_SETTING_CHOICES: Final = _list_choices()
_BY_DEFINITION: Final = tuple(name for name in _SETTING_CHOICES if name != "on_no_match")
_FLAGS: Final = {"true": True, "false": False}


def _check_settings(settings: Any, where: str, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(settings, Mapping):
        raise PolicyError(f"{where}: must be an object of settings")
    return {name: _check_value(name, value, where, names) for name, value in settings.items()}


def _check_value(name: str, value: Any, where: str, names: tuple[str, ...]) -> Setting:
    if name not in names:
        raise PolicyError(f"{where}: there is no setting {name!r}; there are: {', '.join(names)}")
    choices = _SETTING_CHOICES[name]
    converted = _FLAGS.get(value, value) if isinstance(value, str) and True in choices else value
    for choice in choices:
        # By class too: 1 equals True, and a number is no setting.
        if converted.__class__ is choice.__class__ and converted == choice:
            return choice
    choice_names = ", ".join(str(choice).lower() for choice in choices)
    raise PolicyError(f"{where}: {name} is {value!r}, and must be one of {choice_names}")


def _find_group(xid: str) -> str:
    return "/".join(xid.split("/")[:3])
