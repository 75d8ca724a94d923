"""Build a registry document from the observations of a stream: message definitions and the schemas of payloads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, count, islice
from typing import Final

from signalbook.formats.base import format_pointer, is_json
from signalbook.pipeline.inference import maps, schemas
from signalbook.pipeline.inference.discriminators import Discriminator
from signalbook.pipeline.inference.observations import EVENT, PLAIN, KindSummary, Observations, is_transport
from signalbook.pipeline.inference.schemas import ObjectFamilies, Rules
from signalbook.pipeline.inference.summaries import AddressSummary, ValueSummary
from signalbook.values import JSONObject, format_count

LABELS: Final = {"stage": "draft"}
"""The labels of inferred groups, until a person has reviewed them."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._~-]+", re.ASCII)
_LONGEST_ID: Final = 120
# Attributes that definitions leave out: the specification requires them anyway, or they differ from event to event.
_UNSAID: Final = ("specversion", "id", "type", "time", "datacontenttype")
_HEADER: Final = "headers."
# The minimum share of messages with a JSON payload for a definition to have a schema.
_PAYLOADS: Final = 0.99


def build_document(observations: Observations, group: str, rules: Rules, by: Discriminator) -> JSONObject:
    """Return a message group with a definition for each kind of message, and a schema group with their schemas.

    Both groups have the id ``group``. ``by`` is the discriminator of the messages that are not CloudEvents.
    """
    messages: JSONObject = {}
    schema_resources: JSONObject = {}
    kin = ObjectFamilies(observed.data for _, observed in _assign_ids(observations))
    for name, observed in _assign_ids(observations):
        messages[name] = _build_message_definition(observed, rules, by.header)
        if observed.payloads >= _PAYLOADS * observed.count:
            uri = f"/schemagroups/{group}/schemas/{name}"
            messages[name] |= {"dataschemaformat": schemas.FORMAT, "dataschemauri": uri}
            schema = schemas.build_schema(observed.data, rules, kin)
            if observed.kind == PLAIN:
                _require_value(schema, by.find_member(observed.names[0]), observed.names[1])
            schema_resources[name] = {"versions": {"1": {"format": schemas.FORMAT, "schema": schema}}}
    return {
        "messagegroups": {group: {"labels": {**LABELS}, "messages": messages}},
        **({"schemagroups": {group: {"labels": {**LABELS}, "schemas": schema_resources}}} if schema_resources else {}),
    }


def count_messages(observations: Observations) -> dict[str, int]:
    """Return the number of messages from which each definition was inferred, by its id."""
    return {name: observed.count for name, observed in _assign_ids(observations)}


MOST_DOUBTS: Final = 100
"""The maximum number of doubts to report."""
# With fewer messages than this, a definition is reported as doubtful.
_FEW: Final = 10
# Up to this share, values of another type are probably mistakes.
_RARE: Final = 0.1


def list_doubts(observations: Observations) -> list[JSONObject]:
    """Return the conclusions from little evidence, each with ``definition``, ``path`` in the payload, and ``doubt``."""
    return list(islice(_find_doubts(observations), MOST_DOUBTS))


def _find_doubts(observations: Observations) -> Iterator[JSONObject]:
    for name, observed in _assign_ids(observations):
        if observed.count < _FEW:
            yield {"definition": name, "path": "", "doubt": f"inferred from {format_count(observed.count, 'message')}"}
        for path, doubt in chain(maps.find_doubts(observed.data), _find_rare_types(observed.data)):
            yield {"definition": name, "path": format_pointer(path), "doubt": doubt}


def _find_rare_types(seen: ValueSummary, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path of each place, at or below ``seen``, where few values have another type, and the doubt as text."""
    counts = {
        "number": seen.integers + seen.numbers,
        "text": seen.texts.count,
        "boolean": seen.booleans,
        "list": seen.arrays,
        "object": seen.objects,
    }
    (most, usual), *others = Counter(counts).most_common()
    rare = [format_count(number, noun) for noun, number in others if number]
    if rare and sum(number for _, number in others) <= _RARE * usual:
        yield path, f"{format_count(usual, most)}, but also {' and '.join(rare)}"
    if seen.items is not None:
        yield from _find_rare_types(seen.items, (*path, "*"))
    whole = seen.merge_cases()
    members = {"*": maps.merge_members(whole)} if maps.is_map(whole, root=not path) else whole.members
    for name, member in members.items():
        yield from _find_rare_types(member, (*path, name))


def describe_doubts(document: JSONObject, doubts: Sequence[JSONObject], rejections: Sequence[str]) -> JSONObject:
    """Return ``document`` with the doubts as the description of its message group, which comes first.

    ``rejections`` are why the definitions of one half of the messages rejected some of the other half.
    """
    lines = [
        *(f"- {doubt['definition']} {doubt['path'] or '/'}: {doubt['doubt']}" for doubt in doubts),
        *(f"- half of the messages did not show enough to accept the others: {text}" for text in rejections),
    ]
    if not lines:
        return document
    ((group_id, group),) = document["messagegroups"].items()
    description = "\n".join(["Inferred from messages. Check first:", *lines, ""])
    return {**document, "messagegroups": {group_id: {"description": description, **group}}}


def _assign_ids(observations: Observations) -> Iterator[tuple[str, KindSummary]]:
    """Yield each kind with the id of its definition, the most common kind first."""
    used_ids: set[str] = set()
    for observed in sorted(observations.kinds.values(), key=lambda summary: (-summary.count, summary.names)):
        yield _choose_id(observed, used_ids), observed


def _choose_id(observed: KindSummary, used_ids: set[str]) -> str:
    """Return an id made from the kind's names, and add it to ``used_ids``.

    The id differs from all ``used_ids``, even if case is ignored.
    """
    names = observed.names[-1:] if observed.kind == EVENT else observed.names
    text = _UNSAFE.sub("-", "-".join(filter(None, names))).strip("-.~")[:_LONGEST_ID] or "message"
    name = next(
        candidate for candidate in chain([text], (f"{text}-{n}" for n in count(2))) if candidate.lower() not in used_ids
    )
    used_ids.add(name.lower())
    return name


def _build_message_definition(observed: KindSummary, rules: Rules, header: str) -> JSONObject:
    common: JSONObject = {"description": f"Inferred from {format_count(observed.count, 'message')}."}
    if observed.kind == EVENT:
        return {**common, "envelope": "CloudEvents/1.0", "envelopemetadata": _build_metadata(observed, rules)}
    content_type, *further_types = observed.types or ("",)
    if not further_types and is_json(content_type):
        common["datacontenttype"] = content_type
    if observed.kind == PLAIN:
        topic = observed.names[0]
        return {**common, "protocol": "KAFKA", "protocoloptions": {"topic": topic}} if topic else common
    return {**common, "protocol": "HTTP", "protocoloptions": _build_options(observed, rules, header)}


def _require_value(schema: JSONObject, member: str, text: str) -> None:
    """Make ``schema`` require the ``member`` that distinguishes this kind, with the value ``text``, under all rules."""
    if not member:
        return
    for name in member.split("."):
        schema["required"] = [*dict.fromkeys([*schema.get("required", ()), name])]
        # An object with very many names is a map, whose schema does not list them.
        schema = schema.setdefault("properties", {}).setdefault(name, {})
    is_number = "integer" in schema.get("type", "") and "string" not in schema["type"]
    schema |= {"type": "integer", "const": int(text)} if is_number else {"type": "string", "const": text}
    schema.pop("enum", None)


def _build_metadata(observed: KindSummary, rules: Rules) -> JSONObject:
    placeholders: set[str] = set()
    metadata: JSONObject = {"type": {"value": observed.names[0]}}
    for name, addresses in observed.attributes.items():
        native = observed.natives[name]
        if name not in _UNSAID:
            metadata[name] = _build_property(addresses, rules, placeholders) if native == "string" else {"type": native}
    for name, item in metadata.items():
        if _is_always_present(observed, name, rules):
            item["required"] = True
    if _is_always_present(observed, "time", rules):
        metadata["time"] = {"required": True}
    return metadata


def _build_property(addresses: AddressSummary, rules: Rules, placeholders: set[str]) -> JSONObject:
    template = addresses.build_template(placeholders) if addresses.count >= rules.required > 0 else None
    if template is None:
        return {}
    return {"type": "uritemplate", "value": template} if "{" in template else {"value": template}


def _build_options(observed: KindSummary, rules: Rules, header: str) -> JSONObject:
    placeholders: set[str] = set()
    method, about = observed.names
    options: JSONObject = {"method": method} if method else {}
    if "path" in observed.attributes:
        path = observed.attributes["path"].build_template(placeholders)
        if path and (not header or _is_always_present(observed, "path", rules)):
            options["path"] = path
    headers = list(_build_headers(observed, rules, header, about))
    return {**options, "headers": headers} if headers else options


def _build_headers(observed: KindSummary, rules: Rules, header: str, about: str) -> Iterator[JSONObject]:
    if header:
        yield {"name": header, "value": about, "required": True}
    for name in sorted(observed.attributes):
        other = name.removeprefix(_HEADER)
        if other not in (name, header) and not is_transport(name) and _is_always_present(observed, name, rules):
            yield {"name": other, "required": True}


def _is_always_present(observed: KindSummary, name: str, rules: Rules) -> bool:
    addresses = observed.attributes.get(name)
    return addresses is not None and addresses.count == observed.count >= rules.required > 0
