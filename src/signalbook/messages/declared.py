"""What a definition declares: the properties of its envelope and of its protocol (domain.md F-23, F-30)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from signalbook.messages.bindings.registry import find_binding
from signalbook.messages.cloudevents import REQUIRED
from signalbook.messages.properties import Property
from signalbook.messages.protocols import CLOUDEVENTS
from signalbook.values import JSONObject

# Types of the core attributes, where a definition names none (F-30).
_DEFAULT_TYPES: Final = {"source": "uritemplate", "dataschema": "uritemplate", "time": "timestamp"}
_CACHED: Final = 1024


def declared_attributes(definition: JSONObject) -> list[Property]:
    """The context attributes of a materialised definition, but for ``specversion``; none if it is of no event."""
    if definition.get("envelope") != CLOUDEVENTS:
        return []
    metadata = definition.get("envelopemetadata") or {}
    return [
        _attribute(name, entry.get("type"), entry.get("value"), entry.get("required"))
        for name, entry in metadata.items()
        if name != "specversion"
    ]


def declared_options(protocol: str, given: JSONObject | None) -> list[Property]:
    """The properties that ``protocoloptions`` declare. Raises ``PropertyError`` for options of the wrong shape."""
    binding = find_binding(protocol) if protocol else None
    return binding.properties(given) if binding is not None and given else []


# The definitions of a book have most of their attributes in common.
@lru_cache(maxsize=_CACHED, typed=True)
def _attribute(name: str, type: str | None, value: str | None, required: bool | None) -> Property:
    """A context attribute; what CloudEvents demands is required whatever the definition says (F-31)."""
    return Property(
        name=name,
        path=f"envelopemetadata.{name}",
        type=type or _DEFAULT_TYPES.get(name, "string"),
        value=value,
        required=required is True or name in REQUIRED,
        comparison="content_type" if name == "datacontenttype" else "value",
    )
