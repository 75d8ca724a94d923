"""Settings that decide what happens to messages where a contract leaves a choice (K-46)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, get_args, get_type_hints

from signalbook.errors import SignalbookError

Setting = str | bool


class PolicyError(SignalbookError):
    """The error for an unknown setting, or a setting with an invalid value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Settings that apply only to the message group, endpoint or message definition ``xid``."""

    xid: str
    settings: tuple[tuple[str, Setting], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings that decide what happens to messages where a contract leaves a choice (K-46).

    - ``on_no_match``: a message that fits no definition is rejected, passed through unchanged, or dropped;
    - ``on_ambiguous``: a message that fits several definitions is rejected, accepted once for each of them (``all``),
      or accepted for the most specific one if there is one (``best``, K-29); it is rejected if the definitions have
      different settings;
    - ``on_schema_violation``: a payload that violates its schema is rejected, or accepted with the violations as
      warnings (``tag``);
    - ``on_removed``: a message of a definition past its ``deprecated.removal`` gets a warning, or is rejected (K-33);
    - ``prefer_specific``: if several definitions fit and all have this setting, the most specific one is chosen before
      payloads are checked (K-29);
    - ``native_mapping``: a message that is not a CloudEvent may fit a CloudEvents definition by its protocol options
      alone, and is converted to an event (K-26, K-35);
    - ``strict_delivery``: delivery details such as MQTT ``qos`` must fit too, and a message from a file does not fit a
      definition with a protocol (K-27);
    - ``required_schema``: a message is rejected if its definition has no payload schema (K-42);
    - ``on_duplicate_names``: if an object in a JSON payload has a name twice, the last value is used, or the payload is
      rejected (RFC 8259, 4: names SHOULD be unique; CloudEvents 1.0.2 takes any JSON as data);
    - ``on_tombstone``: a Kafka record with a key and no value, which is not an event, marks a deletion in a compacted
      topic; it is rejected if the definition names a schema, because it has no payload, or it is dropped;
    - ``rescue``: values of a payload that have no column are kept in one additional column, or dropped;
    - ``columns``: times, dates and decimals that payloads carry as text or numbers get columns of their real types
      (``typed``), or of the types in which they are sent (``as_sent``); ``auto`` keeps the types of existing tables,
      and creates typed columns in new tables;
    - ``wire_prefix``: payloads begin with the number of the schema that wrote them, as Confluent's serializers write it
      (``content.py``);
    - ``unknown_fields``: unknown fields in Protobuf's JSON are a violation, or are ignored as in binary (``drop``);
    - ``on_broken_definition``: a definition that cannot be used is reported and left out, and its messages are rejected
      (``leave_out``, K-44), or processing does not start (``stop``).

    ``overrides`` are different settings for some groups or definitions. An override for a definition takes precedence
    over one for its group. ``on_no_match`` cannot be overridden, because it applies to messages without a definition.
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
        """True if times, dates and decimals get columns of their real types in new tables."""
        return self.columns != "as_sent"

    def of(self, xid: str) -> Policy:
        """Return the policy for the definition ``xid``, with its overrides applied."""
        if not self.overrides:
            return self
        places = _find_group(xid), xid.partition("/versions/")[0]
        chosen: dict[str, Any] = {}
        for place in places:
            chosen.update(pair for override in self.overrides if override.xid == place for pair in override.settings)
        return replace(self, overrides=(), **chosen)

    def unknown_overrides(self, definitions: Iterable[str]) -> tuple[str, ...]:
        """Return the xids of overrides that match neither one of the ``definitions`` nor a group of one of them."""
        if not self.overrides:
            return ()
        places = {place for xid in definitions for place in (xid, _find_group(xid))}
        return tuple(dict.fromkeys(override.xid for override in self.overrides if override.xid not in places))


def parse_policy(settings: Mapping[str, Any]) -> Policy:
    """Return the policy in a section of a configuration.

    ``settings`` are values by name. A name that is an xid has an object with overrides. Raises ``PolicyError``.
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
    """Return the policy in texts like those of ``flag_settings``. Raises ``PolicyError``."""
    return parse_policy(flag_settings(flags))


def flag_settings(flags: Iterable[str]) -> dict[str, Any]:
    """Parse texts like ``on_no_match=drop`` and ``/messagegroups/shop:on_removed=warn`` to settings.

    The result has the form that ``parse_policy`` takes. Raises ``PolicyError`` for a text of another form.
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
        # Compare classes too, because 1 equals True in Python, but a number is not a valid setting.
        if converted.__class__ is choice.__class__ and converted == choice:
            return choice
    choice_names = ", ".join(str(choice).lower() for choice in choices)
    raise PolicyError(f"{where}: {name} is {value!r}, and must be one of {choice_names}")


def _find_group(xid: str) -> str:
    return "/".join(xid.split("/")[:3])
