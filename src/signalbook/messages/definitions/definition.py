"""Compile message definitions to checks of properties, and to keys by which they are found (K-8, K-14)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, Final

from signalbook.errors import SignalbookError
from signalbook.formats.base import Nesting
from signalbook.messages.bindings.base import find_binding
from signalbook.messages.cloudevents import CORE, MEDIA_TYPE, REQUIRED, Mode
from signalbook.messages.content import implied_content_type, is_implied, same_content_type
from signalbook.messages.definitions.normalise import CLOUDEVENTS
from signalbook.messages.definitions.schemas import NONE, ContractSchemas, SchemaUse, find_named_version
from signalbook.messages.message import Message, Reason
from signalbook.messages.policy import Policy
from signalbook.messages.properties import Check, Context, Property, PropertyError, Values, compile_property
from signalbook.messages.uritemplates import Template, is_template
from signalbook.values import Finding, JSONObject, parse_timestamp

# A check of parts of a message that are neither attributes nor properties.
MessageCheck = Callable[[Message, Mode], Finding | None]
MemberPath = tuple[str, ...]
"""The names that lead from a payload to a member."""


def has_mode(expected: str) -> MessageCheck:
    """Return a check that a message has the ``expected`` content mode (F-34, K-26.7)."""

    def check(_: Message, mode: Mode) -> Finding | None:
        if mode.value == expected:
            return None
        return Finding(path="mode", rule="mode", message=f"the content mode must be {expected}, not {mode.value}")

    return check


def has_format(expected: str, path: str) -> MessageCheck:
    """Return a check that a message has the ``expected`` event format.

    ``path`` is the member of the definition that requires it (F-14, F-34, K-26.7).
    """

    def check(message: Message, mode: Mode) -> Finding | None:
        if mode is Mode.STRUCTURED and same_content_type(expected, message.content_type):
            return None
        actual = message.content_type or "none"
        return Finding(path=path, rule="format", message=f"the event format must be {expected}, not {actual}")

    return check


def states_content_type(name: str, expected: str, same: Callable[[str, str], bool]) -> Check:
    """Return a check that the attribute ``name`` has the ``expected`` content type, if it is set (K-26.6).

    ``same`` compares the expected and the actual content type.
    """

    def check(values: Values, _: Context) -> Finding | None:
        actual = values.get(name)
        if actual is None or actual == expected or same(expected, str(actual)):
            return None
        return Finding(path=name, rule="content_type", message=f"{name} must be {expected}, not {actual}")

    return check


def has_content_type(expected: str, same: Callable[[str, str], bool]) -> MessageCheck:
    """Return a check that a message without envelope has the ``expected`` content type, if it states one (K-26.6).

    ``same`` compares the expected and the actual content type.
    """

    def check(message: Message, _: Mode) -> Finding | None:
        actual = message.content_type
        if not actual or actual == expected or same(expected, actual):
            return None
        return Finding(path="content_type", rule="content_type", message=f"must be {expected}, not {actual}")

    return check


def names_schema(xid: str, required: bool) -> Check:
    """Return a check that ``dataschema`` names the schema ``xid`` or one of its Versions, on any host (F-32, L-31).

    ``required`` is True if an event without ``dataschema`` is a violation.
    """

    def check(values: Values, _: Context) -> Finding | None:
        actual = values.get("dataschema")
        if actual is None:
            text = "dataschema is required"
            return Finding(path="dataschema", rule="required", message=text) if required else None
        if find_named_version(str(actual), xid) is not None:
            return None
        return Finding(path="dataschema", rule="value", message=f"dataschema must name {xid}, not {actual!r}")

    return check


# The types of core attributes if a definition states no type (F-30).
_DEFAULT_TYPES: Final = {"source": "uritemplate", "dataschema": "uritemplate", "time": "timestamp"}


def declare_attributes(definition: JSONObject) -> list[Property]:
    """Return the context attributes that a materialised definition declares, except ``specversion``.

    Return an empty list if the definition is not for events.
    """
    if definition.get("envelope") != CLOUDEVENTS:
        return []
    metadata = definition.get("envelopemetadata") or {}
    return [
        _declare_attribute(name, entry.get("type"), entry.get("value"), entry.get("required"))
        for name, entry in metadata.items()
        if name != "specversion"
    ]


def declare_options(protocol: str, options: JSONObject | None) -> list[Property]:
    """Return the properties that ``protocoloptions`` declare. Raises ``PropertyError`` for malformed options."""
    binding = find_binding(protocol) if protocol else None
    return binding.properties(options) if binding is not None and options else []


# The definitions of a contract have most of their attributes in common.
@lru_cache(maxsize=1024, typed=True)
def _declare_attribute(name: str, type: str | None, value: str | None, required: bool | None) -> Property:
    """Return a declared context attribute. Attributes that CloudEvents requires are always required (F-31)."""
    return Property(
        name=name,
        path=f"envelopemetadata.{name}",
        type=type or _DEFAULT_TYPES.get(name, "string"),
        value=value,
        required=required is True or name in REQUIRED,
        comparison="content_type" if name == "datacontenttype" else "value",
    )


_CACHED: Final = 1024
# Types of core attributes that CloudEvents already guarantees for every valid event.
_GUARANTEED_TYPES: Final = {
    "time": ("timestamp",),
    "source": ("string", "urireference"),
    "dataschema": ("string", "uri"),
}


class DefinitionError(SignalbookError):
    """The error for a definition that does not compile. ``findings`` are all its problems."""

    def __init__(self, xid: str, findings: Iterable[Finding]) -> None:
        self.xid = xid
        self.findings = tuple(findings)
        super().__init__(f"{xid}: " + "; ".join(str(finding) for finding in self.findings))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexKey:
    """A constant or template of a property that distinguishes a definition from others.

    Keys with a low ``tier`` are preferred: tier 0 identifies the kind of message by itself, tier 3 is of little use.
    ``required`` is True if every message of the definition has the property.
    """

    name: str
    value: str | Template
    tier: int
    required: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class CompiledDefinition:
    """A message definition, compiled for checking messages.

    ``event_checks`` check the context attributes of a CloudEvent, ``protocol_checks`` the values that a binding reads
    from a message, and ``message_checks`` other parts. ``event_templates`` and ``protocol_templates`` are the templates
    of attributes and protocol properties by name. ``options`` are the names of the declared protocol properties, and
    ``discriminators`` those for which a mismatch means another kind of message. ``payload_type`` is the content type of
    the payload if the message does not state it (declared, or else implied by the schema's format). ``event_score`` and
    ``protocol_score`` are the numbers of constants, templates and required properties (K-29). ``policy`` has the
    settings for this definition (K-46). ``broken`` has the reasons why the definition cannot be used. Then it only
    serves to recognise messages, and no payload conforms.
    """

    xid: str
    version: str
    definition: JSONObject
    is_event: bool
    protocol: str
    event_checks: tuple[Check, ...]
    protocol_checks: tuple[Check, ...]
    message_checks: tuple[MessageCheck, ...]
    event_keys: tuple[IndexKey, ...]
    protocol_keys: tuple[IndexKey, ...]
    event_templates: Mapping[str, Template]
    protocol_templates: Mapping[str, Template]
    options: frozenset[str]
    discriminators: frozenset[str]
    payload_type: str
    event_score: tuple[int, int, int]
    protocol_score: tuple[int, int, int]
    warnings: tuple[Finding, ...]
    removal: datetime | None
    schemas: ContractSchemas
    policy: Policy
    broken: tuple[Finding, ...] = ()

    @property
    def message_id(self) -> str:
        """The id of the message, which is the last part of its Resource's xid."""
        return self.xid.partition("/versions/")[0].rpartition("/")[2]

    @cached_property
    def schema_use(self) -> SchemaUse:
        """The schema of the payload, parsed on first use."""
        if self.broken:
            return SchemaUse(reason=Reason.CONTRACT_UNAVAILABLE, findings=self.broken)
        return self.schemas.of_definition(self.definition)

    def schema_for(self, dataschema: str | None) -> SchemaUse:
        """Return the schema Version that ``dataschema`` of an event names, or the definition's schema (K-39)."""
        use = self.schema_use
        return self.schemas.of_writer(use, dataschema) if dataschema and use.resource else use

    def schema_of_number(self, number: int | str) -> SchemaUse:
        """Return the schema Version with this ``number`` or guid, which a wire prefix contains."""
        return self.schemas.of_number(self.schema_use, number)

    @cached_property
    def key_use(self) -> SchemaUse:
        """The schema of the keys of records, parsed on first use; ``NONE`` if the keys have no schema."""
        return self.schemas.of_keys(self.schema_use) if self.protocol == "KAFKA" else NONE

    def key_schema_of_number(self, number: int | str) -> SchemaUse:
        """Return the Version of the key schema with this ``number`` or guid, which a wire prefix contains."""
        return self.schemas.of_number(self.key_use, number)

    @cached_property
    def constants(self) -> Mapping[str, frozenset[Any]]:
        """The top-level payload members for which the schema allows only certain values (K-30)."""
        schema = self.schema_use.schema
        return {} if schema is None else schema.constants()

    @cached_property
    def nested_constants(self) -> Mapping[MemberPath, frozenset[Any]]:
        """The payload members inside of objects for which the schema allows only certain values, by path of names."""
        schema = self.schema_use.schema
        return schema.nested_constants() if isinstance(schema, Nesting) else {}

    @property
    def simple(self) -> bool:
        """True if ``event_checks`` are all checks of the metadata of a structured event from a file."""
        return self.is_event and not self.message_checks

    def check_event(self, attributes: Values, context: Context) -> list[Finding]:
        """Check context attributes, and add the values that templates capture to ``context``. Return the findings."""
        return [finding for check in self.event_checks if (finding := check(attributes, context)) is not None]


def compile_definition(
    xid: str,
    definition: JSONObject,
    schemas: ContractSchemas,
    policy: Policy,
    doubts: tuple[Finding, ...] = (),
    broken: tuple[Finding, ...] = (),
) -> CompiledDefinition:
    """Compile a materialised definition, with ``doubts`` added to its warnings. Raises ``DefinitionError``.

    If it is known to be ``broken``, properties that do not compile are left out, and no error is raised.
    """
    compiler = _Compiler(definition, policy.strict_delivery)
    if compiler.findings and not broken:
        raise DefinitionError(xid, compiler.findings)
    options = [part.declared for part in compiler.options]
    return CompiledDefinition(
        xid=xid,
        version=str(definition.get("versionid") or ""),
        definition=definition,
        is_event=compiler.is_event,
        protocol=compiler.protocol,
        event_checks=tuple(compiler.event_checks),
        protocol_checks=tuple(compiler.protocol_checks),
        message_checks=tuple(compiler.message_checks),
        event_keys=_collect_keys(compiler.attributes),
        protocol_keys=_collect_keys(compiler.options),
        event_templates=_collect_templates(compiler.attributes),
        protocol_templates=_collect_templates(compiler.options),
        options=frozenset(option.name for option in options),
        discriminators=frozenset(option.name for option in options if option.role == "discriminator"),
        payload_type=compiler.payload_type,
        event_score=_sum_scores(compiler.attributes),
        protocol_score=_sum_scores(compiler.options),
        warnings=doubts + _warn_deprecated(definition),
        removal=_parse_removal(definition),
        schemas=schemas,
        policy=policy,
        broken=broken,
    )


class _Compiler:
    """Collects the checks of one definition, and every reason why it cannot be compiled."""

    def __init__(self, definition: JSONObject, strict_delivery: bool) -> None:
        self.definition = definition
        self.strict_delivery = strict_delivery
        self.findings: list[Finding] = []
        self.is_event = definition.get("envelope") == CLOUDEVENTS
        self.protocol = str(definition.get("protocol") or "")
        options = self._declare_options()
        self.attributes = self._compile_parts(
            _compile_attribute, declare_attributes(definition) if self.is_event else []
        )
        self.options = self._compile_parts(_compile_option, options)
        self.payload_type = self._find_payload_type()
        self.event_checks = [part.check for part in self.attributes if part.check is not None]
        self.protocol_checks = [part.check for part in self.options if part.check is not None]
        self.message_checks = list(_build_message_checks(definition)) if self.is_event else []
        self._add_content_type_check()

    def _declare_options(self) -> list[Property]:
        try:
            declared = declare_options(self.protocol, self.definition.get("protocoloptions"))
        except PropertyError as error:
            self._report("protocoloptions", str(error))
            return []
        return [option for option in declared if option.role != "delivery" or self.strict_delivery]

    def _compile_parts(self, compile: Callable[[Property], _Part], properties: Iterable[Property]) -> list[_Part]:
        parts = []
        for declared in properties:
            try:
                parts.append(compile(declared))
            except PropertyError as error:
                self._report(declared.path, str(error).removeprefix(f"{declared.path}: "))
        return parts

    def _find_payload_type(self) -> str:
        metadata = self.definition.get("envelopemetadata") or {}
        declared = (metadata.get("datacontenttype") or {}).get("value") if self.is_event else None
        if declared and not is_template(declared):
            return str(declared)
        outer = str(self.definition.get("datacontenttype") or "")
        # The content type of an envelope describes the message, not its data.
        if outer and not outer.lower().startswith(MEDIA_TYPE):
            return outer
        return implied_content_type(str(self.definition.get("dataschemaformat") or ""))

    def _add_content_type_check(self) -> None:
        """Add the check of the declared or implied payload type, unless an option states it (K-26.5, K-26.6)."""
        # A declared content type of an attribute or option takes precedence over one implied by the schema's format.
        by_protocol = any(part.declared.comparison == "content_type" and part.declared.value for part in self.options)
        by_envelope = any(part.declared.name == "datacontenttype" and part.declared.value for part in self.attributes)
        if by_protocol or by_envelope or not self.payload_type:
            return
        outer = str(self.definition.get("datacontenttype") or "")
        same = same_content_type if self.payload_type == outer else is_implied
        if self.is_event:
            self.event_checks.append(states_content_type("datacontenttype", self.payload_type, same))
        else:
            self.message_checks.append(has_content_type(self.payload_type, same))

    def _report(self, path: str, message: str) -> None:
        self.findings.append(Finding(path=path, rule="definition", message=message))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A declared property with its check and its key, if it has any. ``score`` is added to the definition's score."""

    declared: Property
    check: Check | None
    key: IndexKey | None
    score: tuple[int, int, int]


def _compile_option(declared: Property) -> _Part:
    """Raises ``PropertyError``."""
    return _build_part(declared, compile_property(declared))


@lru_cache(maxsize=_CACHED)
def _compile_attribute(declared: Property) -> _Part:
    """Raises ``PropertyError``."""
    reduced = _reduce_checks(declared)
    if reduced.name == "dataschema" and str(reduced.value or "").startswith("/"):
        return _build_part(reduced, names_schema(str(reduced.value), reduced.required))
    return _build_part(reduced, compile_property(reduced))


def _build_part(declared: Property, check: Check | None) -> _Part:
    score = (declared.constant is not None, declared.template() is not None, declared.required)
    return _Part(declared=declared, check=check, key=_build_key(declared), score=score)


def _reduce_checks(declared: Property) -> Property:
    """Return the part of an attribute's checks that a valid event can still fail."""
    name, core = declared.name, declared.name in CORE and declared.type == "string"
    # Events without a required attribute are rejected before definitions are checked.
    if name in REQUIRED:
        declared = replace(declared, required=False)
    # The rules of CloudEvents for core attributes have been checked once for the event. Checking them again for each
    # definition would take most of the time.
    is_guaranteed = declared.value is None and (core or declared.type in _GUARANTEED_TYPES.get(name, ()))
    return replace(declared, type="any") if is_guaranteed else declared


def _build_message_checks(definition: JSONObject) -> Iterable[MessageCheck]:
    options = definition.get("envelopeoptions") or {}
    if options.get("mode"):
        yield has_mode(str(options["mode"]))
    if options.get("format"):
        yield has_format(str(options["format"]), "envelopeoptions.format")
    outer = str(definition.get("datacontenttype") or "")
    if outer.lower().startswith(MEDIA_TYPE):
        yield has_format(outer, "datacontenttype")


def _collect_templates(parts: Iterable[_Part]) -> Mapping[str, Template]:
    return {part.declared.name: template for part in parts if (template := part.declared.template()) is not None}


def _collect_keys(parts: Iterable[_Part]) -> tuple[IndexKey, ...]:
    return tuple(sorted((part.key for part in parts if part.key is not None), key=lambda key: key.tier))


def _build_key(declared: Property) -> IndexKey | None:
    if declared.name == "dataschema":
        return None  # any Version of a schema will do
    constant = declared.constant
    required = declared.required or declared.name in REQUIRED
    if constant is not None:
        # The type tells the kind by itself; an optional constant tells little, since a message may lack it.
        tier = 0 if declared.name == "type" and not declared.multiple else 1 if required else 3
        return IndexKey(name=declared.name, value=constant, tier=tier, required=required)
    template = declared.template()
    # Such a key would match every message, or miss messages without the property.
    if template is None or template.whole or declared.multiple or not required:
        return None
    return IndexKey(name=declared.name, value=template, tier=2, required=required)


def _sum_scores(parts: Iterable[_Part]) -> tuple[int, int, int]:
    constants = templates = required = 0
    for constant, template, demanded in (part.score for part in parts):
        constants, templates, required = constants + constant, templates + template, required + demanded
    return constants, templates, required


def _warn_deprecated(definition: JSONObject) -> tuple[Finding, ...]:
    """Return a warning if the definition is deprecated, with its dates and its replacement (K-33)."""
    deprecated = definition.get("deprecated")
    if not isinstance(deprecated, dict):
        return ()
    details = ", ".join(
        f"{name} {deprecated[name]}" for name in ("effective", "removal", "alternative") if name in deprecated
    )
    text = f"the definition is deprecated: {details}" if details else "the definition is deprecated"
    return (Finding(path="deprecated", rule="deprecated", message=text, severity="warning"),)


def _parse_removal(definition: JSONObject) -> datetime | None:
    deprecated = definition.get("deprecated")
    removal = deprecated.get("removal") if isinstance(deprecated, dict) else None
    try:
        return parse_timestamp(removal) if isinstance(removal, str) else None
    except ValueError:
        return None
