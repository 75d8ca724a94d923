"""The definitions of the registry's own change events, as a catalogue anyone can import (core/events.md).

With it a Signalbook is one more producer in the book: its feed goes through the same pipeline as any stream.
"""

from __future__ import annotations

from typing import Final

from signalbook.events.cloudevents import ACTIONS, event_type, lists_changes
from signalbook.values import JSONObject

GROUP: Final = "io.xregistry"

_SUBJECTS: Final = {
    "registry": "/",
    "model": "/model",
    "modelsource": "/modelsource",
    "capabilities": "/capabilities",
    "group": "/{grouptype}/{groupid}",
    "resource": "/{grouptype}/{groupid}/{resourcetype}/{resourceid}",
    "version": "/{grouptype}/{groupid}/{resourcetype}/{resourceid}/versions/{versionid}",
}

_CHANGED_SCHEMA: Final[JSONObject] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Names of the attributes that were added, modified or removed",
    "type": "object",
    "properties": {"changed": {"type": "array", "items": {"type": "string", "minLength": 1}, "uniqueItems": True}},
    "required": ["changed"],
}


def catalogue() -> JSONObject:
    """One message group with a message per event type, named by the type, and the schema they share."""
    messages = {
        event_type(entity, action): _message(entity, action)
        for entity, actions in ACTIONS.items()
        for action in actions
    }
    return {
        "messagegroups": {
            GROUP: {
                "name": "xRegistry change events",
                "description": "What an xRegistry server says when one of its entities changes.",
                "documentation": "https://github.com/xregistry/spec/blob/main/core/events.md",
                "envelope": "CloudEvents/1.0",
                "messages": messages,
            }
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


def _message(entity: str, action: str) -> JSONObject:
    message: JSONObject = {
        "name": f"{entity} {action}",
        "envelope": "CloudEvents/1.0",
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
