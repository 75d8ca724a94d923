"""Repair entities of older drafts: endpoints, message groups, messages and schemas, with references and timestamps.

Every change is reported (domain G-4, F-57, F-58, I-3 to I-7, L-2, L-4, L-5, L-30, L-33).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from signalbook.documents.errors import Repair
from signalbook.values import JSON, JSONObject, parse_timestamp


@dataclass(slots=True, kw_only=True)
class RepairedObject:
    """An entity that is being repaired, or an object in it.

    ``within`` is the path of the object in the entity ``xid`` (``""`` for the entity). ``log`` collects the repairs of
    the whole document, ``rules`` the rules of the repairs to this entity and the objects in it.
    """

    xid: str
    body: JSONObject
    log: list[Repair]
    within: str = ""
    rules: list[str] = field(default_factory=list)

    def report(self, name: str, message: str, rule: str) -> None:
        """Record the repair of the attribute ``name`` that ``message`` describes."""
        path = f"{self.within}{name}"
        self.log.append(Repair(path=f"{self.xid}#{path}" if path else self.xid, message=message, rule=rule))
        self.rules.append(rule)

    def member(self, name: str) -> RepairedObject | None:
        """Return the object at ``name``, or None if there is no object."""
        body = self.body.get(name)
        if not isinstance(body, dict):
            return None
        return RepairedObject(xid=self.xid, body=body, log=self.log, within=f"{self.within}{name}.", rules=self.rules)

    def members(self) -> Iterator[RepairedObject]:
        """Yield every member that is an object."""
        for name in list(self.body):
            item = self.member(name)
            if item is not None:
                yield item

    def _find_entity(self, collection: str, name: str) -> RepairedObject | None:
        body = self.body[collection].get(name)
        if not isinstance(body, dict):
            return None
        return RepairedObject(xid=f"{self.xid.rstrip('/')}/{collection}/{name}", body=body, log=self.log)

    def entities(self, collection: str) -> Iterator[RepairedObject]:
        """Yield all entities of an inlined collection."""
        members = self.body.get(collection)
        for name in list(members) if isinstance(members, dict) else ():
            item = self._find_entity(collection, name)
            if item is not None:
                yield item

    def rename(self, old: str, new: str, rule: str) -> None:
        """Rename the member ``old`` to ``new``, unless both exist with different values."""
        # If both exist with different values, it is unknown which value is right. Then the registry refuses the
        # document, and a person has to decide.
        if old in self.body and self.body.get(new) in (None, self.body[old]):
            self.body[new] = self.body.pop(old)
            self.report(old, f"renamed to {new}", rule)

    def change(self, name: str, value: JSON, message: str, rule: str) -> None:
        """Set the member ``name`` to ``value``, and report the change with ``message``."""
        if self.body.get(name) != value:
            self.body[name] = value
            self.report(name, message, rule)

    def drop(self, name: str, why: str, rule: str) -> None:
        """Remove the member ``name`` if it exists, and report ``why``."""
        if name in self.body:
            del self.body[name]
            self.report(name, f"left out: {why}", rule)

    def move(self, name: str, inner: str, new: str, rule: str) -> None:
        """Move the member ``name`` to the member ``new`` of the object ``inner``, which is created if it is missing."""
        target = self.body.setdefault(inner, {}) if name in self.body else None
        if isinstance(target, dict) and target.get(new) in (None, self.body[name]):
            target[new] = self.body.pop(name)
            self.report(name, f"moved to {inner}.{new}", rule)


def repair_documentation(entity: RepairedObject) -> None:
    """Replace an object in ``documentation`` by the only URL in it, or remove the object if it has not exactly one."""
    stated = entity.body.get("documentation")
    if not isinstance(stated, dict):
        return
    urls = [value for value in stated.values() if isinstance(value, str) and value.startswith(("http://", "https://"))]
    if len(urls) == 1:
        entity.change("documentation", urls[0], "replaced by the URL in it", "R43")
    else:
        entity.drop("documentation", "it is an object, not a URL", "R43")


SENTINEL: Final = "01-01-0000T00:00:00Z"
_OLD_STAMPS: Final = {"createdtimeutc": "createdat", "updatedtimeutc": "modifiedat"}
_IN_DEPRECATED: Final = ("effective", "removal")


def repair_timestamps(entity: RepairedObject) -> None:
    """Repair ``createdat``, ``modifiedat`` and the dates in ``deprecated``. Values that are not dates are removed."""
    for old, new in _OLD_STAMPS.items():
        entity.rename(old, new, "I-6")
    for name in ("createdat", "modifiedat"):
        repair_timestamp(entity, name)
    deprecated = entity.member("deprecated")
    for name in _IN_DEPRECATED if deprecated else ():
        assert deprecated is not None
        repair_timestamp(deprecated, name)


def repair_timestamp(entity: RepairedObject, name: str) -> None:
    """Remove the member ``name`` if it is a text but not a timestamp."""
    text = entity.body.get(name)
    if not isinstance(text, str):
        return
    if text == SENTINEL:
        entity.drop(name, f"{text} stands for no date", "I-6")
        return
    try:
        parse_timestamp(text)
    except ValueError:
        entity.drop(name, f"{text} is no date", "I-5")


GROUP_TYPES: Final = {
    "definitionGroups": "messagegroups",
    "definitiongroups": "messagegroups",
    "schemaGroups": "schemagroups",
}
RESOURCE_TYPES: Final = {"definitions": "messages", "schema": "schemas", "message": "messages"}
_GROUP_COLLECTIONS: Final = frozenset({"endpoints", "messagegroups", "schemagroups"})
_FORBIDDEN: Final = re.compile(r"[^A-Za-z0-9._~:@-]", re.ASCII)
_MAX_ID_CHARS: Final = 128


def modernise_reference(text: str) -> str:
    """Return a reference with current names of collections, as an xid.

    A text that does not point to an entity of its own document is returned unchanged.
    """
    path, mark, fragment = text.removeprefix("#").partition("#")
    if not path.startswith("/"):
        return text
    segments = [segment.replace("~1", "/").replace("~0", "~") for segment in path[1:].split("/")]
    renamed = _rename_segments(segments)
    # The fragment points into the document of the schema, whose names must not change.
    return f"/{'/'.join(renamed)}{mark}{fragment}" if renamed[0] in _GROUP_COLLECTIONS else text


def make_legal_id(id: str) -> str:
    """Return ``id`` with underscores in place of characters that ids must not have (L-4).

    An underscore is put in front if an id must not begin with the first character.
    """
    legal = _FORBIDDEN.sub("_", id)
    return (legal if re.match(r"\w", legal) else f"_{legal}")[:_MAX_ID_CHARS]


def _rename_segments(segments: Sequence[str]) -> list[str]:
    renamed = list(segments)
    renamed[0] = GROUP_TYPES.get(renamed[0], renamed[0])
    if len(renamed) > 2:
        renamed[2] = RESOURCE_TYPES.get(renamed[2], renamed[2])
    if len(renamed) > 4 and renamed[4] == "version":
        renamed[4] = "versions"
    return [segment if position % 2 == 0 else _make_legal_link(segment) for position, segment in enumerate(renamed)]


def _make_legal_link(segment: str) -> str:
    """Return an id in a reference with legal characters. It may have a colon and a pointer into the schema."""
    return make_legal_id(segment) if segment else segment


_NO_CODE: Final = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_DAMAGED: Final = re.compile(r"(.+)version", re.DOTALL)


def repair_schema(entity: RepairedObject) -> None:
    """Repair the attributes of a schema, and the ``format`` of its Versions, which depends on the schema."""
    repair_schema_version(entity)
    shared = entity.body.get("format")
    for version in entity.entities("versions"):
        stated = version.body.get("format")
        if isinstance(shared, str) and stated is None:
            version.change("format", shared, f"took {shared} from the schema", "I-6")
        if isinstance(stated, str) and (match := _DAMAGED.fullmatch(stated)):
            version.change("format", match[1], f"was {stated}", "I-6")
    _unify_formats(entity)


def _unify_formats(schema: RepairedObject) -> None:
    """Remove the version number from ``format`` if the formats of a schema's Versions differ only in that number.

    All Versions of a schema must have the same format (G-4).
    """
    entities = [schema, *schema.entities("versions")]
    stated = {stated for entity in entities if isinstance(stated := entity.body.get("format"), str)}
    names = {text.partition("/")[0].lower() for text in stated}
    # Versions in two different formats stay as they are, and the registry rejects them.
    if len({text.lower() for text in stated}) > 1 and len(names) == 1:
        for entity in entities:
            if "format" in entity.body:
                name = entity.body["format"].partition("/")[0]
                entity.change("format", name, f"was {entity.body['format']}; all Versions have one format", "G-4")


def repair_schema_version(entity: RepairedObject) -> None:
    """Repair the attributes of a Version of a schema, or the attributes of the default Version in a schema."""
    entity.rename("schemauri", "schemaurl", "I-7")
    entity.rename("schemaformat", "format", "I-6")
    repair_protobuf(entity, "schema", entity.body.get("format"))


def repair_protobuf(entity: RepairedObject, name: str, format: JSON) -> None:
    """Remove the last brace of a Protobuf text if there is one brace too many (L-33)."""
    text = entity.body.get(name)
    if not isinstance(text, str) or not str(format).lower().startswith("protobuf"):
        return
    code = _NO_CODE.sub("", text)
    # Repair only exactly one surplus brace at the very end, outside comments and strings. The intention behind any
    # other damage is unknown.
    if code.count("}") == code.count("{") + 1 and text.rstrip().endswith("}"):
        entity.change(name, text.rstrip()[:-1].rstrip() + "\n", "took away the surplus } at its end", "L-33")


_SELECTORS: Final = {"protocol": ("amqp", "http", "kafka", "mqtt", "nats"), "envelope": ("cloudevents", "cloudsevents")}
_ENVELOPES: Final = {"cloudsevents": "CloudEvents/1.0", "cloudsevents/1.0": "CloudEvents/1.0"}
_PROPERTY_TYPES: Final = {"var": "any", "datetime": "timestamp", "urireference": "uri"}
_SECURITY: Final = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_SCHEMA_NAMES: Final = {
    "schemaformat": "dataschemaformat",
    "schema": "dataschema",
    "schemaurl": "dataschemauri",
    "schemauri": "dataschemauri",
    "dataschemaurl": "dataschemauri",
}
_REFERENCES: Final = ("dataschemauri", "dataschemaxid", "basemessage", "basemessageuri")


def repair_endpoint(entity: RepairedObject) -> None:
    """Repair the attributes of an endpoint, without its messages."""
    if isinstance(entity.body.get("usage"), str):
        entity.change("usage", [entity.body["usage"]], "made an array of it", "I-6")
    entity.rename("definitionGroups", "messagegroups", "I-6")
    _spread_config(entity)
    repair_selectors(entity)
    for name in ("deployed", "endpoints"):
        entity.move(name, "protocoloptions", name, "I-7")
    _repair_addresses(entity)
    _repair_groups(entity)
    _rename_options(entity)


def repair_selectors(entity: RepairedObject) -> None:
    """Repair envelope and protocol.

    ``format`` was split into ``envelope`` and ``protocol``; envelopes are misspelt (L-2); ``None`` is no protocol.
    """
    stated = entity.body.get("format")
    for name, prefixes in _SELECTORS.items():
        if isinstance(stated, str) and stated.lower().startswith(prefixes):
            entity.rename("format", name, "I-6")
    envelope = entity.body.get("envelope")
    if isinstance(envelope, str) and envelope.lower() in _ENVELOPES:
        entity.change("envelope", _ENVELOPES[envelope.lower()], f"was {envelope}", "L-2")
    protocol = entity.body.get("protocol")
    if isinstance(protocol, str) and protocol.strip().lower() == "none":
        entity.drop("protocol", f"{protocol} means no protocol", "rc1")


def repair_message(entity: RepairedObject) -> None:
    """Repair the attributes of a message, or of one of its Versions."""
    if _convert_cross_reference(entity):
        return
    for old, new in _SCHEMA_NAMES.items():
        entity.rename(old, new, "I-6")
    entity.rename("metadata", "envelopemetadata", "I-6")
    entity.rename("basemessageurl", "basemessageuri", "F-57")
    repair_selectors(entity)
    _spread_config(entity)
    _lift_attributes(entity)
    for name in _REFERENCES:
        repair_reference(entity, name)
    repair_protobuf(entity, "dataschema", entity.body.get("dataschemaformat"))
    metadata, options = entity.member("envelopemetadata"), entity.member("protocoloptions")
    for section in (metadata, options):
        _repair_property_types(section, 3) if section else None
    _repair_query(entity)
    _rename_options(entity)


def repair_reference(entity: RepairedObject, name: str) -> None:
    """Replace the reference in the member ``name`` by an xid with current names."""
    text = entity.body.get(name)
    if isinstance(text, str):
        entity.change(name, modernise_reference(text), f"was {text}", "I-3" if text.startswith("#/") else "L-5")


def _convert_cross_reference(entity: RepairedObject) -> bool:
    """Convert a message that refers to another message by ``uri`` to a Resource with ``meta.xref`` (F-58, L-27).

    Return True if the message was converted.
    """
    uri = entity.body.get("uri")
    target = modernise_reference(uri) if isinstance(uri, str) else ""
    if not target.startswith(("/messagegroups/", "/endpoints/")):
        return False
    # The registry refuses other attributes in a Resource with ``xref``, so they are removed.
    id_attribute = {name: entity.body[name] for name in ("messageid",) if name in entity.body}
    entity.body.clear()
    entity.body.update(id_attribute, meta={"xref": target})
    entity.report("uri", f"made it a cross reference (meta.xref) to {target}, without attributes of its own", "F-58")
    return True


def _spread_config(entity: RepairedObject) -> None:
    """Move the members of ``config`` to ``protocol`` and ``protocoloptions``. Documents of 2023 have ``config``."""
    config = entity.body.pop("config", None)
    if not isinstance(config, dict):
        if config is not None:
            entity.body["config"] = config
        return
    entity.report("config", "spread over protocol and protocoloptions", "I-6")
    options = entity.body.setdefault("protocoloptions", {})
    nested_options = config.get("options")
    for name, value in {**(nested_options if isinstance(nested_options, dict) else {}), **config}.items():
        if name == "protocol":
            entity.body.setdefault("protocol", value)
        elif name not in ("options", "strict") and isinstance(options, dict):
            options.setdefault(name, value)
    if not options:
        del entity.body["protocoloptions"]


def _repair_addresses(entity: RepairedObject) -> None:
    """Convert the addresses of an endpoint to objects. Objects for Kafka have a list of ``bootstrap.servers``."""
    options = entity.member("protocoloptions")
    entries = options.body.get("endpoints") if options else None
    if options is None or not isinstance(entries, list):
        return
    objects = [{"uri": entry} if isinstance(entry, str) else entry for entry in entries]
    options.change("endpoints", objects, "made objects of the addresses", "I-6")
    if str(entity.body.get("protocol", "")).lower().startswith("kafka"):
        servers = [_make_bootstrap_servers(entry) for entry in objects]
        options.change("endpoints", servers, "made bootstrap.servers of the addresses", "I-7")


def _make_bootstrap_servers(entry: JSON) -> JSON:
    if not isinstance(entry, dict) or not isinstance(entry.get("uri"), str) or "bootstrap.servers" in entry:
        return entry
    parts = urlsplit(entry["uri"])
    security = {"security.protocol": parts.scheme.upper()} if parts.scheme.upper() in _SECURITY else {}
    members = {name: value for name, value in entry.items() if name != "uri"}
    return {"bootstrap.servers": [parts.netloc or entry["uri"]], **security, **members}


def _repair_groups(endpoint: RepairedObject) -> None:
    groups = endpoint.body.get("messagegroups")
    if isinstance(groups, list):
        references = [modernise_reference(group) if isinstance(group, str) else group for group in groups]
        endpoint.change("messagegroups", references, "named the groups by xid", "I-3")


def _rename_options(entity: RepairedObject) -> None:
    """Rename options of AMQP, whose names have dashes instead of underscores (I-7)."""
    options = entity.member("protocoloptions")
    if options is not None and str(entity.body.get("protocol", "")).lower().startswith("amqp"):
        for name in [name for name in options.body if "_" in name]:
            options.rename(name, name.replace("_", "-"), "I-7")


def _lift_attributes(entity: RepairedObject) -> None:
    metadata = entity.body.get("envelopemetadata")
    if isinstance(metadata, dict) and set(metadata) == {"attributes"} and isinstance(metadata["attributes"], dict):
        entity.change("envelopemetadata", metadata["attributes"], "took its attributes out of attributes", "I-6")


def _repair_property_types(section: RepairedObject, depth: int) -> None:
    """Repair the types and values of property definitions in ``section``, down to ``depth`` levels below it."""
    type_name, value = section.body.get("type"), section.body.get("value")
    if isinstance(type_name, str) and type_name in _PROPERTY_TYPES:
        section.change("type", _PROPERTY_TYPES[type_name], f"was {type_name}", "I-6")
    if value == SENTINEL:
        section.drop("value", f"{value} stands for any value", "I-6")
    for item in section.members() if depth else ():
        _repair_property_types(item, depth - 1)


def _repair_query(entity: RepairedObject) -> None:
    """Convert HTTP's ``query`` from a map to an array, because the model of rc4 requires an array (L-30)."""
    options = entity.member("protocoloptions")
    query = options.body.get("query") if options else None
    if options is not None and isinstance(query, dict):
        listed = [
            {"name": name, **(value if isinstance(value, dict) else {"value": value})} for name, value in query.items()
        ]
        options.change("query", listed, "made a list of the map", "L-30")
