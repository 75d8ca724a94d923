"""Build a document with message definitions of the registry's own change events, in the dialect of each API.

With this document a registry describes itself as a producer, and a pipeline can process its change feed. The
definitions correct errors in those that the Message Catalog drafts print: subjects are paths of the API, also for
groups and definitions, and ``value`` and ``required`` are in the right place (D-23).
"""

from __future__ import annotations

from typing import Final

from signalbook.events.dialects import ACTIONS, MESSAGE_CATALOG, SCHEMA_REGISTRY, draft_type, event_type, lists_changes
from signalbook.values import JSONObject

GROUP: Final = "io.xregistry"

_ENVELOPE: Final = "CloudEvents/1.0"
_DOCUMENTATION: Final = "https://github.com/xregistry/spec/blob/main/core/events.md"

_SUBJECTS: Final = {
    "registry": "/",
    "model": "/model",
    "modelsource": "/modelsource",
    "capabilities": "/capabilities",
    "group": "/{grouptype}/{groupid}",
    "resource": "/{grouptype}/{groupid}/{resourcetype}/{resourceid}",
    "version": "/{grouptype}/{groupid}/{resourcetype}/{resourceid}/versions/{versionid}",
}

_DRAFTS: Final = {SCHEMA_REGISTRY: "Schema Registry", MESSAGE_CATALOG: "Message Catalog"}
_HAPPENED: Final = {"updated": "created or updated", "deleted": "deleted"}

_CHANGED_SCHEMA: Final[JSONObject] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Names of the attributes that were added, modified or removed",
    "type": "object",
    "properties": {"changed": {"type": "array", "items": {"type": "string", "minLength": 1}, "uniqueItems": True}},
    "required": ["changed"],
}


def change_event_definitions() -> JSONObject:
    """Return a document with a message group for each dialect, and the schema of the payloads.

    Each group has one message for each event type. The type is the id of the message.
    """
    return {
        "messagegroups": {
            GROUP: _build_own_group(),
            **{types: _build_draft_group(types, api) for types, api in _DRAFTS.items()},
        },
        "schemagroups": {
            GROUP: {
                "name": "Payloads of xRegistry change events",
                "schemas": {
                    "changed": {"versions": {"1": {"format": "JsonSchema/draft-07", "schema": _CHANGED_SCHEMA}}}
                },
            }
        },
    }


def _build_own_group() -> JSONObject:
    return {
        "name": "xRegistry change events",
        "description": "What an xRegistry server says when one of its entities changes.",
        "documentation": _DOCUMENTATION,
        "envelope": _ENVELOPE,
        "messages": {
            event_type(entity, action): _build_message(entity, action)
            for entity, actions in ACTIONS.items()
            for action in actions
        },
    }


def _build_message(entity: str, action: str) -> JSONObject:
    message: JSONObject = {
        "name": f"{entity} {action}",
        "envelope": _ENVELOPE,
        "envelopemetadata": {
            "type": {"value": event_type(entity, action)},
            "source": {"description": "URL of the registry root"},
            "subject": {"type": "uritemplate", "value": _SUBJECTS[entity], "required": True},
            "time": {"required": True},
            "xregcorrelationid": {
                "type": "string",
                "required": True,
                "description": "The same on all events of one request",
            },
        },
    }
    if lists_changes(entity, action):
        message["dataschemaformat"] = "JsonSchema/draft-07"
        message["dataschemauri"] = f"/schemagroups/{GROUP}/schemas/changed"
    return message


def _build_draft_group(types: str, api: str) -> JSONObject:
    return {
        "name": f"{api} change events",
        "description": f"What a registry that speaks the {api} API says when something in it changes.",
        "envelope": _ENVELOPE,
        "messages": {draft_type(types, action): _build_draft_message(types, action, api) for action in _HAPPENED},
    }


def _build_draft_message(types: str, action: str, api: str) -> JSONObject:
    time = "Time of the change, as the object itself tells it" if action == "updated" else "Time of the deletion"
    return {
        "name": f"{api} {action}",
        "description": f"Something in the {api} was {_HAPPENED[action]}. The event has no data: fetch what it names.",
        "envelope": _ENVELOPE,
        "envelopemetadata": {
            "specversion": {"value": "1.0", "required": True},
            "id": {"required": True, "description": "Unique among the events with this source, type and subject"},
            "type": {"value": draft_type(types, action), "required": True},
            "source": {"required": True, "description": f"Base URI of the {api}"},
            # A template cannot be used, because paths of groups, their members and versions differ in length.
            "subject": {"required": True, "description": f"API path of what was {_HAPPENED[action]}"},
            "time": {"required": True, "description": time},
        },
    }
