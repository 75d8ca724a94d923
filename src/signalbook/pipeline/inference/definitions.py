"""A registry document of what was observed in a stream: message definitions and the schemas of their payloads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, count, islice
from typing import Final

from signalbook.formats.base import format_pointer, is_json
from signalbook.pipeline.inference import maps, schemas
from signalbook.pipeline.inference.discriminators import Discriminator
from signalbook.pipeline.inference.observations import EVENT, PLAIN, KindSummary, Observations, is_transport
from signalbook.pipeline.inference.schemas import ObjectFamilies, Rules
from signalbook.pipeline.inference.summaries import AddressSummary
from signalbook.values import JSONObject

LABELS: Final = {"stage": "draft"}
"""Labels of inferred groups, until someone has looked at them."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._~-]+", re.ASCII)
_LONGEST_ID: Final = 120
# What the specification demands anyway, or what differs from event to event.
_UNSAID: Final = ("specversion", "id", "type", "time", "datacontenttype")
_HEADER: Final = "headers."
# Fewer payloads than this share, and it is no payload that a definition may demand.
_PAYLOADS: Final = 0.99


def document(observations: Observations, group: str, rules: Rules, by: Discriminator) -> JSONObject:
    """Return a message group with a definition for each kind of message, and a schema group with their schemas.

    Both have the id ``group``. ``by`` tells apart the messages that are not CloudEvents.
    """
    messages: JSONObject = {}
    found: JSONObject = {}
    kin = ObjectFamilies(observed.data for _, observed in _named(observations))
    for name, observed in _named(observations):
        messages[name] = _message(observed, rules, by.header)
        if observed.payloads >= _PAYLOADS * observed.count:
            uri = f"/schemagroups/{group}/schemas/{name}"
            messages[name] |= {"dataschemaformat": schemas.FORMAT, "dataschemauri": uri}
            schema = schemas.schema(observed.data, rules, kin)
            if observed.kind == PLAIN:
                _demand_value(schema, by.member(observed.names[0]), observed.names[1])
            found[name] = {"versions": {"1": {"format": schemas.FORMAT, "schema": schema}}}
    return {
        "messagegroups": {group: {"labels": {**LABELS}, "messages": messages}},
        **({"schemagroups": {group: {"labels": {**LABELS}, "schemas": found}}} if found else {}),
    }


def counts(observations: Observations) -> dict[str, int]:
    """Return the number of messages behind each definition, by its id."""
    return {name: observed.count for name, observed in _named(observations)}


MOST_DOUBTS: Final = 100
"""Doubts that are reported."""
# Fewer messages say little of the next one.
_FEW: Final = 10


def doubts(observations: Observations) -> list[JSONObject]:
    """Return what was inferred from little: ``definition``, ``path`` in its payload, and the ``doubt``."""
    return list(islice(_doubts(observations), MOST_DOUBTS))


def _doubts(observations: Observations) -> Iterator[JSONObject]:
    for name, observed in _named(observations):
        if observed.count < _FEW:
            yield {"definition": name, "path": "", "doubt": f"inferred from {observed.count} messages"}
        for path, doubt in maps.doubts(observed.data):
            yield {"definition": name, "path": format_pointer(path), "doubt": doubt}


def _named(observations: Observations) -> Iterator[tuple[str, KindSummary]]:
    """The kinds with their ids, the commonest first."""
    taken: set[str] = set()
    for observed in sorted(observations.kinds.values(), key=lambda each: (-each.count, each.names)):
        yield _id(observed, taken), observed


def _id(observed: KindSummary, taken: set[str]) -> str:
    """An id after the kind's names, unlike all others in any case of letters."""
    names = observed.names[-1:] if observed.kind == EVENT else observed.names
    text = _UNSAFE.sub("-", "-".join(filter(None, names))).strip("-.~")[:_LONGEST_ID] or "message"
    name = next(each for each in chain([text], (f"{text}-{n}" for n in count(2))) if each.lower() not in taken)
    taken.add(name.lower())
    return name


def _message(observed: KindSummary, rules: Rules, header: str) -> JSONObject:
    common: JSONObject = {"description": f"Inferred from {observed.count} messages."}
    if observed.kind == EVENT:
        return {**common, "envelope": "CloudEvents/1.0", "envelopemetadata": _metadata(observed, rules)}
    content_type, *others = observed.types or ("",)
    if not others and is_json(content_type):
        common["datacontenttype"] = content_type
    if observed.kind == PLAIN:
        topic = observed.names[0]
        return {**common, "protocol": "KAFKA", "protocoloptions": {"topic": topic}} if topic else common
    return {**common, "protocol": "HTTP", "protocoloptions": _options(observed, rules, header)}


def _demand_value(schema: JSONObject, member: str, text: str) -> None:
    """Make ``schema`` demand the member that tells a kind apart, and its value, whatever the rules demand."""
    if not member:
        return
    for name in member.split("."):
        schema["required"] = [*dict.fromkeys([*schema.get("required", ()), name])]
        # An object with very many names is a map, whose schema does not list them.
        schema = schema.setdefault("properties", {}).setdefault(name, {})
    is_number = "integer" in schema.get("type", "") and "string" not in schema["type"]
    schema |= {"type": "integer", "const": int(text)} if is_number else {"type": "string", "const": text}
    schema.pop("enum", None)


def _metadata(observed: KindSummary, rules: Rules) -> JSONObject:
    placeholders: set[str] = set()
    found: JSONObject = {"type": {"value": observed.names[0]}}
    for name, addresses in observed.attributes.items():
        native = observed.natives[name]
        if name not in _UNSAID:
            found[name] = _property(addresses, rules, placeholders) if native == "string" else {"type": native}
    for name, item in found.items():
        if _always(observed, name, rules):
            item["required"] = True
    if _always(observed, "time", rules):
        found["time"] = {"required": True}
    return found


def _property(addresses: AddressSummary, rules: Rules, placeholders: set[str]) -> JSONObject:
    template = addresses.template(placeholders) if addresses.count >= rules.required > 0 else None
    if template is None:
        return {}
    return {"type": "uritemplate", "value": template} if "{" in template else {"value": template}


def _options(observed: KindSummary, rules: Rules, header: str) -> JSONObject:
    placeholders: set[str] = set()
    method, about = observed.names
    found: JSONObject = {"method": method} if method else {}
    if "path" in observed.attributes:
        path = observed.attributes["path"].template(placeholders)
        if path and (not header or _always(observed, "path", rules)):
            found["path"] = path
    headers = list(_headers(observed, rules, header, about))
    return {**found, "headers": headers} if headers else found


def _headers(observed: KindSummary, rules: Rules, header: str, about: str) -> Iterator[JSONObject]:
    if header:
        yield {"name": header, "value": about, "required": True}
    for name in sorted(observed.attributes):
        other = name.removeprefix(_HEADER)
        if other not in (name, header) and not is_transport(name) and _always(observed, name, rules):
            yield {"name": other, "required": True}


def _always(observed: KindSummary, name: str, rules: Rules) -> bool:
    addresses = observed.attributes.get(name)
    return addresses is not None and addresses.count == observed.count >= rules.required > 0
