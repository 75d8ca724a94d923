"""Endpoints, message groups and messages of other days (domain I-5, I-6, I-7, F-57, F-58, L-2, L-30)."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from signalbook.documents.lenient.page import Page
from signalbook.documents.lenient.references import modern_reference
from signalbook.documents.lenient.schemas import mend_protobuf
from signalbook.documents.lenient.values import SENTINEL
from signalbook.values import JSON

_SELECTORS: Final = {"protocol": ("amqp", "http", "kafka", "mqtt", "nats"), "envelope": ("cloudevents", "cloudsevents")}
_ENVELOPES: Final = {"cloudsevents": "CloudEvents/1.0", "cloudsevents/1.0": "CloudEvents/1.0"}
_TYPES: Final = {"var": "any", "datetime": "timestamp", "urireference": "uri"}
_SECURITY: Final = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_SCHEMA_NAMES: Final = {
    "schemaformat": "dataschemaformat",
    "schema": "dataschema",
    "schemaurl": "dataschemauri",
    "schemauri": "dataschemauri",
    "dataschemaurl": "dataschemauri",
}
_REFERENCES: Final = ("dataschemauri", "dataschemaxid", "basemessage", "basemessageuri")


def mend_endpoint(page: Page) -> None:
    """The attributes of an endpoint, its messages apart."""
    if isinstance(page.body.get("usage"), str):
        page.change("usage", [page.body["usage"]], "made an array of it", "I-6")
    page.rename("definitionGroups", "messagegroups", "I-6")
    _config(page)
    mend_selectors(page)
    for name in ("deployed", "endpoints"):
        page.move(name, "protocoloptions", name, "I-7")
    _addresses(page)
    _groups(page)
    _options(page)


def mend_selectors(page: Page) -> None:
    """``format`` as it was called before it was split into ``envelope`` and ``protocol``; misspelt envelopes (L-2)."""
    stated = page.body.get("format")
    for name, prefixes in _SELECTORS.items():
        if isinstance(stated, str) and stated.lower().startswith(prefixes):
            page.rename("format", name, "I-6")
    envelope = page.body.get("envelope")
    if isinstance(envelope, str) and envelope.lower() in _ENVELOPES:
        page.change("envelope", _ENVELOPES[envelope.lower()], f"was {envelope}", "L-2")


def mend_message(page: Page) -> None:
    """The attributes of a message, or of one of its Versions."""
    if _cross_reference(page):
        return
    for old, new in _SCHEMA_NAMES.items():
        page.rename(old, new, "I-6")
    page.rename("metadata", "envelopemetadata", "I-6")
    page.rename("basemessageurl", "basemessageuri", "F-57")
    mend_selectors(page)
    _config(page)
    _lift_attributes(page)
    for name in _REFERENCES:
        mend_reference(page, name)
    mend_protobuf(page, "dataschema", page.body.get("dataschemaformat"))
    metadata, options = page.member("envelopemetadata"), page.member("protocoloptions")
    for section in (metadata, options):
        _properties(section, 3) if section else None
    _query(page)
    _options(page)


def mend_reference(page: Page, name: str) -> None:
    """A reference to an entity, in today's names and as an xid."""
    text = page.body.get(name)
    if isinstance(text, str):
        page.change(name, modern_reference(text), f"was {text}", "I-3" if text.startswith("#/") else "L-5")


def _cross_reference(page: Page) -> bool:
    """A message that only points to another one by ``uri`` shows it through ``meta.xref`` today (F-58, L-27)."""
    uri = page.body.get("uri")
    target = modern_reference(uri) if isinstance(uri, str) else ""
    if not target.startswith(("/messagegroups/", "/endpoints/")):
        return False
    kept = {name: page.body[name] for name in ("messageid",) if name in page.body}
    page.body.clear()
    page.body.update(kept, meta={"xref": target})
    page.told("uri", f"made it a cross reference (meta.xref) to {target}, without attributes of its own", "F-58")
    return True


def _config(page: Page) -> None:
    """``config`` of 2023: protocol, addresses and options in one object."""
    config = page.body.pop("config", None)
    if not isinstance(config, dict):
        if config is not None:
            page.body["config"] = config
        return
    page.told("config", "spread over protocol and protocoloptions", "I-6")
    options = page.body.setdefault("protocoloptions", {})
    given = config.get("options")
    for name, value in {**(given if isinstance(given, dict) else {}), **config}.items():
        if name == "protocol":
            page.body.setdefault("protocol", value)
        elif name not in ("options", "strict") and isinstance(options, dict):
            options.setdefault(name, value)
    if not options:
        del page.body["protocoloptions"]


def _addresses(page: Page) -> None:
    """Addresses are objects; those of Kafka are lists of ``bootstrap.servers``."""
    options = page.member("protocoloptions")
    entries = options.body.get("endpoints") if options else None
    if options is None or not isinstance(entries, list):
        return
    objects = [{"uri": entry} if isinstance(entry, str) else entry for entry in entries]
    options.change("endpoints", objects, "made objects of the addresses", "I-6")
    if str(page.body.get("protocol", "")).lower().startswith("kafka"):
        servers = [_bootstrap(entry) for entry in objects]
        options.change("endpoints", servers, "made bootstrap.servers of the addresses", "I-7")


def _bootstrap(entry: JSON) -> JSON:
    if not isinstance(entry, dict) or not isinstance(entry.get("uri"), str) or "bootstrap.servers" in entry:
        return entry
    parts = urlsplit(entry["uri"])
    security = {"security.protocol": parts.scheme.upper()} if parts.scheme.upper() in _SECURITY else {}
    rest = {name: value for name, value in entry.items() if name != "uri"}
    return {"bootstrap.servers": [parts.netloc or entry["uri"]], **security, **rest}


def _groups(page: Page) -> None:
    groups = page.body.get("messagegroups")
    if isinstance(groups, list):
        named = [modern_reference(item) if isinstance(item, str) else item for item in groups]
        page.change("messagegroups", named, "named the groups by xid", "I-3")


def _options(page: Page) -> None:
    """AMQP's options have dashes, not underscores (I-7)."""
    options = page.member("protocoloptions")
    if options is not None and str(page.body.get("protocol", "")).lower().startswith("amqp"):
        for name in [name for name in options.body if "_" in name]:
            options.rename(name, name.replace("_", "-"), "I-7")


def _lift_attributes(page: Page) -> None:
    metadata = page.body.get("envelopemetadata")
    if isinstance(metadata, dict) and set(metadata) == {"attributes"} and isinstance(metadata["attributes"], dict):
        page.change("envelopemetadata", metadata["attributes"], "took its attributes out of attributes", "I-6")


def _properties(section: Page, depth: int) -> None:
    """Types of property definitions, at whatever depth a protocol has them."""
    named, value = section.body.get("type"), section.body.get("value")
    if isinstance(named, str) and named in _TYPES:
        section.change("type", _TYPES[named], f"was {named}", "I-6")
    if value == SENTINEL:
        section.drop("value", f"{value} stands for any value", "I-6")
    for page in section.members() if depth else ():
        _properties(page, depth - 1)


def _query(page: Page) -> None:
    """HTTP's ``query`` is an array in the model of rc4 and a map in its text (L-30)."""
    options = page.member("protocoloptions")
    query = options.body.get("query") if options else None
    if options is not None and isinstance(query, dict):
        listed = [
            {"name": name, **(item if isinstance(item, dict) else {"value": item})} for name, item in query.items()
        ]
        options.change("query", listed, "made a list of the map", "L-30")
