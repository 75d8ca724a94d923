"""What a definition has beside its metaschema, here and in xRegistry (domain.md B-4, B-5, C-3, C-4, J-16)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from signalbook.cncf.messagecatalog import originals
from signalbook.cncf.paths import draft_id, entity_id
from signalbook.values import JSON, JSONObject

SPECVERSION: Final = "0.1"
TAGS: Final = "tags"

_KEY: Final = re.compile(r"[a-z0-9][a-z0-9:_.-]{0,62}", re.ASCII)
_PLAIN: Final = {"description": "description", "authority": "authority", "versionuri": "globaluri"} | {
    name: name for name in ("relatedvia", "relation")
}
_INHERITED: Final = ("name", "icon", "documentation", "deprecated")
"""Attributes of xRegistry that no draft has: a new version takes them over."""
MEMBERS: Final = frozenset({*_PLAIN, "documentation", "relatedto", TAGS})
"""What a client may say of a definition; absent, it stays."""
SERVER: Final = frozenset(
    {"id", "format", "specversion", "version", "versions", "definition", "createdtimeutc", "updatedtimeutc"}
)
"""Members that are checked, or are the server's own to say."""


def message_attributes(document: Mapping[str, JSON], before: Mapping[str, JSON]) -> JSONObject:
    """What a ``document`` says of a definition, as attributes of its next version; ``before`` are those of the last.

    What it does not say stays, ``null`` removes (C-10). The URI is that of one version: it does not.
    """
    shown = describe(before)
    said = {name: document[name] if name in document else shown.get(name) for name in MEMBERS}
    if "versionuri" not in document:
        said["versionuri"] = None
    found: JSONObject = {name: before[name] for name in _INHERITED if before.get(name) is not None}
    found |= {place: said[name] for name, place in _PLAIN.items() if said[name] is not None}
    if said["relatedto"] is not None:
        found["relatedto"] = entity_id(said["relatedto"])
    if said["documentation"] is not None and said["documentation"] != before.get("documentation"):
        found["documentationtext"] = said["documentation"]
    if labels := labelled(before.get("labels"), said[TAGS]):
        found["labels"] = labels
    more = {name: value for name, value in document.items() if name not in MEMBERS | SERVER and value is not None}
    return originals.keep_more(found, {**originals.more(dict(before)), **more})


def describe(message: Mapping[str, JSON]) -> JSONObject:
    """What a message says of its definition, as 0.1 has it."""
    found: JSONObject = {name: message[place] for name, place in _PLAIN.items() if message.get(place) is not None}
    if isinstance(message.get("relatedto"), str):
        found["relatedto"] = draft_id(message["relatedto"])
    text = message.get("documentationtext") or message.get("documentation")
    if text is not None:
        found["documentation"] = text
    if (tags := tagged(message.get("labels"))) is not None:
        found[TAGS] = tags
    return {**found, **originals.more(dict(message))}


def labelled(labels: JSON, tags: JSON) -> JSONObject:
    """``labels`` with these ``tags``, each a label without value; as they were, where that does not tell it (J-16)."""
    others = {name: value for name, value in _labels(labels).items() if value != "" and name != TAGS}
    if not isinstance(tags, str):
        return others
    names = [name.strip() for name in tags.split(",")]
    found = {**others, **{name: "" for name in names if _KEY.fullmatch(name) and name not in others}}
    return found if tagged(found) == tags else {**found, TAGS: tags}


def tagged(labels: JSON) -> str | None:
    """The tags in ``labels``, None if there are none."""
    known = _labels(labels)
    if TAGS in known:
        return str(known[TAGS])
    names: Iterable[str] = [name for name, value in known.items() if value == ""]
    return ",".join(sorted(names)) or None


def properties(labels: JSON) -> JSONObject:
    """The labels with values: ``groupProperties`` of a group."""
    return {name: value for name, value in _labels(labels).items() if value != "" and name != TAGS}


def _labels(labels: JSON) -> JSONObject:
    return labels if isinstance(labels, dict) else {}
