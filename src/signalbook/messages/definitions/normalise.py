"""Convert definitions to one canonical form, and complete them by the definitions that they derive from.

The canonical form is that of the RC4 model: ``basemessageuri``, canonical names of envelope and protocol, context
attributes directly under ``envelopemetadata``, protocol options in the form of their binding, property values as text
(K-11, F-38, F-41, F-57, I-6). Missing parts are taken from the bases of a definition (F-15 to F-22, K-12).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from signalbook.messages.bindings.base import find_binding
from signalbook.messages.properties import PropertyError, finding, normalise_property
from signalbook.values import JSON, Finding, JSONObject

CLOUDEVENTS: Final = "CloudEvents/1.0"
# Lower-case name -> canonical name.
_PROTOCOLS: Final = {
    "http": "HTTP",
    "http/1.0": "HTTP",
    "http/1.1": "HTTP",
    "http/2": "HTTP",
    "http/2.0": "HTTP",
    "http/3": "HTTP",
    "amqp": "AMQP/1.0",
    "amqp/1.0": "AMQP/1.0",
    "kafka": "KAFKA",
    "mqtt": "MQTT/5.0",
    "mqtt/5": "MQTT/5.0",
    "mqtt/5.0": "MQTT/5.0",
    "mqtt/3.1.1": "MQTT/3.1.1",
    "nats": "NATS",
    # The default of the message model up to 1.0-rc1, which tools write for messages without a protocol.
    "none": "",
}


def canonical_protocol(name: str) -> str:
    """Return the canonical name of a protocol: "" for ``None``, which means no protocol.

    A protocol that the specification does not name has its name in upper case.
    """
    name = name.strip()
    return _PROTOCOLS.get(name.lower(), name.upper())


def is_known_protocol(name: str) -> bool:
    """Return True if the specification names the protocol."""
    return name.strip().lower() in _PROTOCOLS


def canonical_envelope(name: str) -> str:
    """Return the canonical name of an envelope, or ``name`` itself if the specification does not define it."""
    name = name.strip()
    return CLOUDEVENTS if name.lower() in ("cloudevents", "cloudevents/1.0") else name


_MESSAGE: Final = re.compile(r"#?/(messagegroups|endpoints)/[^/]+/messages/[^/]+(/versions/[^/]+)?")
BASE_NAMES: Final = ("basemessageuri", "basemessage", "basemessageurl")
_PROPERTY_MEMBERS: Final = frozenset({"value", "type", "required", "description", "specurl"})
# Names of the 2022 and 2023 documents (I-6).
_LEGACY_NAMES: Final = {
    "schemaformat": "dataschemaformat",
    "schema": "dataschema",
    "schemaurl": "dataschemauri",
    "schemauri": "dataschemauri",
    "dataschemaurl": "dataschemauri",
}
ALIASES: Final = frozenset({*BASE_NAMES, *_LEGACY_NAMES})


def normalise(raw: Mapping[str, JSON]) -> tuple[JSONObject, list[Finding]]:
    """Return a copy of a message definition in canonical form, and findings about the original.

    A finding with severity ``error`` means that two spellings of a member contradict each other. Normalising a second
    time changes nothing.
    """
    definition: JSONObject = dict(raw)
    findings: list[Finding] = []
    _rename_legacy(definition, findings)
    _unify_base_names(definition, findings)
    _normalise_selectors(definition)
    # The order matters: old names are replaced before sections are processed, and options come last, because they
    # depend on the canonical protocol.
    _lift_metadata(definition, findings)
    _lift_options(definition)
    _normalise_attributes(definition)
    _normalise_options(definition, findings)
    return definition, findings


def _rename_legacy(definition: JSONObject, findings: list[Finding]) -> None:
    # The name ``schema`` may be an extension. It is an old name only together with a format.
    described = "schemaformat" in definition or "dataschemaformat" in definition
    for old, new in _LEGACY_NAMES.items():
        if old in definition and (old != "schema" or described):
            _rename(definition, old, new, findings)
    if _is_section(definition.get("metadata")):
        _rename(definition, "metadata", "envelopemetadata", findings)
    stated = definition.get("format")
    if isinstance(stated, str) and "envelope" not in definition and "protocol" not in definition:
        if canonical_envelope(stated) == CLOUDEVENTS:
            _rename(definition, "format", "envelope", findings)
        elif is_known_protocol(stated):
            _rename(definition, "format", "protocol", findings)
    identifier = definition.get("id")
    if isinstance(identifier, str) and "messageid" not in definition:
        _rename(definition, "id", "messageid", findings)
    uri = definition.get("dataschemauri")
    if isinstance(uri, str):
        definition["dataschemauri"] = uri.replace("/schemaGroups/", "/schemagroups/")


def _rename(definition: JSONObject, old: str, new: str, findings: list[Finding]) -> None:
    value = definition.pop(old)
    if definition.get(new) is None:
        definition[new] = value
    elif definition[new] != value:
        findings.append(finding(old, "alias", f"{old} is an old name of {new}, but has another value"))


def _unify_base_names(definition: JSONObject, findings: list[Finding]) -> None:
    """Replace the three names of the base (F-57), and ``uri`` of a borrowed message (F-58), by ``basemessageuri``."""
    names = ("uri", *BASE_NAMES) if _is_borrowed(definition) else BASE_NAMES
    stated = {name: definition.pop(name) for name in names if definition.get(name) is not None}
    if stated:
        definition["basemessageuri"] = next(iter(stated.values()))
    if len(set(map(str, stated.values()))) > 1:
        findings.append(finding("basemessage", "alias", f"{', '.join(stated)} mean the same, but differ"))


def _is_borrowed(raw: Mapping[str, JSON]) -> bool:
    uri = raw.get("uri")
    return isinstance(uri, str) and _MESSAGE.fullmatch(uri) is not None and not any(raw.get(n) for n in BASE_NAMES)


def _normalise_selectors(definition: JSONObject) -> None:
    if isinstance(definition.get("envelope"), str):
        definition["envelope"] = canonical_envelope(definition["envelope"])
    if isinstance(definition.get("protocol"), str):
        _set_protocol(definition, definition["protocol"])


def _set_protocol(definition: JSONObject, stated: str) -> None:
    definition["protocol"] = canonical_protocol(stated)
    if not definition["protocol"]:
        del definition["protocol"]


def _lift_metadata(definition: JSONObject, findings: list[Finding]) -> None:
    """Move attributes to ``envelopemetadata`` from its member ``attributes`` (F-36) and ``envelopeoptions`` (F-37)."""
    metadata = definition.get("envelopemetadata")
    if isinstance(metadata, dict) and set(metadata) == {"attributes"} and _is_section(metadata["attributes"]):
        definition["envelopemetadata"] = dict(metadata["attributes"])
    options = definition.get("envelopeoptions")
    if not isinstance(options, dict):
        return
    lifted = {
        name: entry for name, entry in options.items() if isinstance(entry, dict) and _PROPERTY_MEMBERS & entry.keys()
    }
    target = definition.get("envelopemetadata") or {}
    if not lifted or not isinstance(target, dict):
        return
    target = dict(target)
    for name, entry in lifted.items():
        if target.setdefault(name, entry) != entry:
            findings.append(finding(f"envelopeoptions.{name}", "alias", f"envelopemetadata.{name} says otherwise"))
    definition["envelopemetadata"] = target
    definition["envelopeoptions"] = {name: entry for name, entry in options.items() if name not in lifted}


def _is_section(value: JSON) -> bool:
    return isinstance(value, dict) and all(isinstance(entry, dict) for entry in value.values())


def _lift_options(definition: JSONObject) -> None:
    """Move the members of ``config``, which documents of 2023 have, to ``protocol`` and ``protocoloptions`` (I-6)."""
    config = definition.pop("config", None)
    if not isinstance(config, dict):
        return
    if isinstance(config.get("protocol"), str) and "protocol" not in definition:
        _set_protocol(definition, config["protocol"])
    options, own_options = config.get("options"), definition.get("protocoloptions") or {}
    if isinstance(options, dict) and isinstance(own_options, dict):
        definition["protocoloptions"] = {**options, **own_options}


def _normalise_attributes(definition: JSONObject) -> None:
    metadata = definition.get("envelopemetadata")
    if isinstance(metadata, dict):
        definition["envelopemetadata"] = {name: normalise_property(entry) for name, entry in metadata.items()}


def _normalise_options(definition: JSONObject, findings: list[Finding]) -> None:
    options = definition.get("protocoloptions")
    binding = find_binding(str(definition.get("protocol") or ""))
    if not isinstance(options, dict) or binding is None:
        return
    try:
        definition["protocoloptions"], more = binding.normalise(options)
    except PropertyError as error:
        more = [finding("protocoloptions", "type", str(error))]
    findings += more


# Returns the raw definition that a ``basemessageuri`` names, or None if it is not available. The URI of a message
# stands for its default Version. The URI of a Version stands for that Version, even if another is the default (F-15).
Bases = Callable[[str], Mapping[str, JSON] | None]
UNRESOLVED: Final = "basemessage_unresolved"
CYCLE: Final = "basemessage_cycle"
# Types that models set as defaults for properties without a type.
_DEFAULTS: Final = ("string", "uritemplate")

MAX_CHAIN: Final = 64
MAX_DEPTH: Final = 64

# Members that belong to one entity, and are not inherited from a base (F-19).
_IDENTITY_MEMBERS: Final = frozenset(
    {
        "messageid", "versionid", "self", "shortself", "xid", "epoch", "createdat", "modifiedat", "ancestorid",
        "ancestor", "isdefault", "meta", "metaurl", "versions", "versionsurl", "versionscount", "basemessageuri",
        "deprecated", "globaluri", "xref",
    }
)  # fmt: skip
_SCHEMA_MEMBERS: Final = frozenset({"dataschema", "dataschemauri", "dataschemaxid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Materialised:
    """A definition completed by its bases.

    ``chain`` are the references to bases that were followed. ``findings`` are about references that could not be
    followed, and about normalising.
    """

    definition: JSONObject
    chain: tuple[str, ...]
    findings: tuple[Finding, ...]


def find_stated_base(raw: Mapping[str, JSON]) -> str | None:
    """Return the base that a raw definition states, under either name (F-57, F-58)."""
    names = (*BASE_NAMES, "uri") if _is_borrowed(raw) else BASE_NAMES
    base = next((raw[name] for name in names if raw.get(name) is not None), None)
    return base if isinstance(base, str) else None


def materialise(raw: Mapping[str, JSON], lookup: Bases) -> Materialised:
    """Complete a raw definition by its chain of bases. Nearer definitions take precedence (F-18).

    A missing base (``UNRESOLVED``) or a cycle ends the chain with a warning, never with an error (F-16, F-17).
    """
    definition, findings = normalise(raw)
    layers, chain = [definition], list[str]()
    own_xid = definition.get("xid")
    seen = {str(own_xid)} if own_xid else set()
    # Cycles are found by comparing references. One base may have several spellings, so the length of the chain is
    # limited as well.
    while (reference := _find_base(layers[-1])) is not None:
        if reference in seen or len(chain) == MAX_CHAIN:
            findings.append(_make_warning(CYCLE, f"the chain of base messages leads back to {reference}"))
            break
        base = lookup(reference)
        if not isinstance(base, Mapping):
            derived = f", which {chain[-1]} names" if chain else ""
            elsewhere = "; nothing is fetched from other registries" if "://" in reference else ""
            findings.append(_make_warning(UNRESOLVED, f"there is no base message {reference}{derived}{elsewhere}"))
            break
        layer, more = normalise(base)
        findings += more
        layers.append(layer)
        chain.append(reference)
        seen.add(reference)
    inherited = _merge_layers(layers[1:]) if chain else {}
    for section in ("envelopemetadata", "protocoloptions"):
        findings += _find_weakened(definition.get(section), inherited.get(section), section)
    return Materialised(definition=_merge_layers(layers), chain=tuple(chain), findings=tuple(findings))


def _find_weakened(section: JSON, inherited: JSON, path: str) -> Iterator[Finding]:
    """Yield findings for properties that a base requires or gives a type, and this definition does not.

    A registry sets ``required`` and ``type`` to defaults of its model (F-43), which may override a base by mistake.
    """
    if not (isinstance(section, dict) and isinstance(inherited, dict)):
        return
    if inherited.get("required") is True and section.get("required") is False:
        yield _warn_override(f"{path}.required", "the base requires it: say required true here too, or it is optional")
    kind = inherited.get("type")
    if section.get("type") in _DEFAULTS and isinstance(kind, str) and kind not in _DEFAULTS:
        yield _warn_override(f"{path}.type", f"of type {kind} in the base: say so here too, or it is {section['type']}")
    for name, value in section.items():
        yield from _find_weakened(value, inherited.get(name), f"{path}.{name}")


def _warn_override(path: str, message: str) -> Finding:
    return finding(path, "basemessage_override", message, "warning")


def _find_base(definition: JSONObject) -> str | None:
    reference = definition.get("basemessageuri")
    return reference.removeprefix("#") if isinstance(reference, str) and reference else None


def _merge_layers(layers: list[JSONObject]) -> JSONObject:
    """Merge the layers, from the farthest base to the definition itself."""
    result: JSONObject = {}
    # Merge from the farthest base, so that a null in a nearer definition removes the value of a farther one.
    for base in reversed(layers[1:]):
        result = _merge_layer(result, {name: value for name, value in base.items() if name not in _IDENTITY_MEMBERS})
    return _merge_layer(result, layers[0])


def _merge_layer(base: JSONObject, over: JSONObject) -> JSONObject:
    base = dict(base)
    # A definition has only one of these members. If it states one, it must not inherit another.
    if any(over.get(name) is not None for name in _SCHEMA_MEMBERS):
        for name in _SCHEMA_MEMBERS:
            base.pop(name, None)
    protocol = over.get("protocol")
    # Options of another protocol must not be mixed with the options of this definition.
    if protocol is not None and base.get("protocol") not in (None, protocol):
        base.pop("protocoloptions", None)
    merged: JSONObject = merge(base, over)
    # A schema in a definition is replaced as a whole. In it null is a value, as in ``const``.
    if over.get("dataschema") is not None:
        merged["dataschema"] = over["dataschema"]
    return merged


def merge(base: JSON, over: JSON, depth: int = 0) -> JSON:
    """Merge ``over`` into ``base``: objects by member, ``null`` deletes, anything else replaces (F-18)."""
    if not isinstance(over, dict):
        return over
    merged = dict(base) if isinstance(base, dict) else {}
    for name, value in over.items():
        if value.__class__ is str:  # most are
            merged[name] = value
        elif value is None:
            merged.pop(name, None)
        elif depth < MAX_DEPTH:
            merged[name] = merge(merged.get(name), value, depth + 1)
        else:
            merged[name] = value
    return merged


def _make_warning(rule: str, message: str) -> Finding:
    return Finding(path="basemessage", rule=rule, message=message, severity="warning")
