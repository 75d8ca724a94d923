"""Represent associations of a resource (a topic) with the subjects of its keys and values, and requests for them.

A strong association belongs to its topic: it is frozen, created together with its schema, and the only association of
its subject. A subject may have many weak associations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self
from urllib.parse import quote

from signalbook.confluent.errors import invalid_association
from signalbook.values import JSON, JSONObject

TOPIC: Final = "topic"
TYPES: Final = ("key", "value")
STRONG, WEAK = "STRONG", "WEAK"
LIFECYCLES: Final = (STRONG, WEAK)
OPERATIONS: Final = ("CREATE", "UPSERT", "DELETE")
_RESOURCE_NAME: Final = re.compile(r"[\w-]{1,256}")
_MAX_ID_CHARS: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource with associations. Its ``name`` is unique in its ``namespace``. Its ``id`` is never reused."""

    name: str
    namespace: str
    id: str
    type: str = TOPIC

    def to_json(self) -> JSONObject:
        """Return the JSON that clients expect."""
        members: JSONObject = {"resourceName": self.name, "resourceNamespace": self.namespace}
        return {**members, **({"resourceId": self.id} if self.id else {}), "resourceType": self.type}

    def own_subject(self, kind: str) -> str:
        """Return the name of the subject that belongs to this resource alone, for its keys or its values."""
        return f":.{self.namespace}:{self.name}-{kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """The association of a ``subject`` with the keys or values (``type``) of a resource.

    ``created`` and ``updated`` are in milliseconds since 1970.
    """

    resource: Resource
    type: str
    subject: str
    lifecycle: str
    guid: str
    created: int
    updated: int

    @property
    def frozen(self) -> bool:
        """True if the association cannot change until its topic is deleted."""
        return self.lifecycle == STRONG

    def info(self) -> JSONObject:
        """Return the association without its resource."""
        # ``frozen`` is left out, because it follows from the lifecycle.
        return {"subject": self.subject, "associationType": self.type, "lifecycle": self.lifecycle}

    def to_json(self) -> JSONObject:
        """Return the JSON that clients expect, which is also stored."""
        times: JSONObject = {"createTs": self.created, "updateTs": self.updated}
        return {**self.info(), "guid": self.guid, **self.resource.to_json(), **times}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Read the association that ``to_json`` wrote.

        Earlier versions wrote the names of the times in full. If another registry left a time out or sent null, it is
        0.
        """
        created, updated = (
            stored.get(f"{kind}Ts") or stored.get(f"{kind}Timestamp") or 0 for kind in ("create", "update")
        )
        return cls(
            resource=Resource(
                name=stored["resourceName"],
                namespace=stored["resourceNamespace"],
                id=stored["resourceId"],
                type=stored["resourceType"],
            ),
            type=stored["associationType"],
            subject=stored["subject"],
            lifecycle=stored["lifecycle"],
            guid=stored["guid"],
            created=created,
            updated=updated,
        )

    def scopes(self) -> tuple[str, str, str]:
        """Return the keys that the association is stored under: the resource's id, its name, and the subject."""
        id_keys = (self.resource.id, self.resource.type, self.type)
        name_keys = (self.resource.name, self.resource.namespace, *id_keys)
        return scope("id", *id_keys), scope("name", *name_keys), scope("subject", self.subject, *id_keys)


def scope(*words: str) -> str:
    """Return one key for ``words``. Different words give different keys, and equal first words give equal prefixes."""
    return "".join(f"{quote(word, safe='')}/" for word in words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A request to create, change or delete an association. None means that the request does not state the value."""

    operation: str
    type: str
    subject: str = ""
    lifecycle: str | None = None
    frozen: bool | None = None
    schema: JSONObject | None = None
    normalize: bool = False
    cascade: bool = False


def read_resource(body: Mapping[str, JSON], *, trial: bool = False) -> Resource:
    """Return the resource in a request. With ``trial``, the id may be missing. Raises ``ConfluentError`` 42212."""
    for member in ("resourceName", "resourceNamespace"):
        if not _RESOURCE_NAME.fullmatch(_read_text(body, member)):
            raise invalid_association(member, "it has letters, digits, '_' and '-', at most 256 of them")
    kind = _read_text(body, "resourceType") or TOPIC
    if kind != TOPIC:
        raise invalid_association("resourceType", f"must be '{TOPIC}'")
    resource_id = _read_text(body, "resourceId")
    if (not resource_id and not trial) or len(resource_id) > _MAX_ID_CHARS or "\0" in resource_id:
        raise invalid_association("resourceId", f"it is a text of 1 to {_MAX_ID_CHARS} characters")
    return Resource(
        name=_read_text(body, "resourceName"), namespace=_read_text(body, "resourceNamespace"), id=resource_id
    )


def read_wanted(body: Mapping[str, JSON], operation: str | None = None) -> list[Wanted]:
    """Return the requests for a resource.

    If ``operation`` is given, it replaces the one in each request. Raises 42212.
    """
    stated = body.get("associations")
    if not isinstance(stated, list) or not stated:
        raise invalid_association("associations", "it is a list of an association for the key, the value or both")
    requests = [_read_request(request, operation) for request in stated]
    if len({request.type for request in requests}) < len(requests):
        raise invalid_association("associationType", "each may come once")
    return requests


def _read_request(body: JSON, operation: str | None) -> Wanted:
    stated: Mapping[str, JSON] = body if isinstance(body, dict) else {}
    chosen = operation or _read_text(stated, "opType")
    if chosen not in OPERATIONS:
        raise invalid_association("opType", f"it is one of {', '.join(OPERATIONS)}")
    kind = _read_text(stated, "associationType") or "value"
    if kind not in TYPES:
        raise invalid_association("associationType", "must be either 'key' or 'value'")
    if chosen == "DELETE":
        return Wanted(operation=chosen, type=kind, cascade=_read_flag(stated, "cascadeLifecycle") or False)
    schema = stated.get("schema")
    if not isinstance(schema, dict | None):
        raise invalid_association("schema", "has to be an object")
    return Wanted(
        operation=chosen,
        type=kind,
        subject=_read_text(stated, "subject"),
        lifecycle=_check_lifecycle(_read_text(stated, "lifecycle")),
        frozen=_read_flag(stated, "frozen"),
        schema=schema,
        normalize=_read_flag(stated, "normalize") or False,
    )


def complete(request: Wanted, own_subject: str, existing: Association | None) -> Wanted:
    """Return ``request`` with defaults for the parts that it does not state. Raises 42212 if it is contradictory.

    By default a new association is STRONG if it has a schema, else WEAK. An ``existing`` one keeps its lifecycle.
    ``own_subject`` is the name of the subject that only this resource may use.
    """
    if existing is None:
        if request.operation == "UPSERT" and request.schema is not None:
            raise invalid_association("schema", "an association with a schema is created with its topic")
        lifecycle = request.lifecycle or (WEAK if request.schema is None else STRONG)
    else:
        lifecycle = request.lifecycle or existing.lifecycle
    if lifecycle == WEAK and request.schema is not None:
        raise invalid_association("lifecycle", "cannot be WEAK when schema is provided")
    if lifecycle == WEAK and request.subject == own_subject:
        raise invalid_association("subject", f"WEAK associations need a subject other than '{own_subject}'")
    is_frozen = lifecycle == STRONG if existing is None else existing.frozen
    if is_frozen and request.subject != own_subject:
        raise invalid_association("subject", f"frozen associations must use subject '{own_subject}'")
    frozen = is_frozen if request.frozen is None else request.frozen
    if frozen != (lifecycle == STRONG):
        raise invalid_association("frozen", f"a {lifecycle} association cannot be frozen={str(frozen).lower()}")
    return replace(request, lifecycle=lifecycle, frozen=frozen)


def check_change(existing: Association, request: Wanted) -> None:
    """Raise 42212 if ``request`` would change a part of ``existing`` that cannot change, such as the subject."""
    if existing.subject != request.subject:
        raise invalid_association("subject", "subject of association cannot be changed")
    if request.frozen != existing.frozen:
        raise invalid_association("frozen", "frozen attribute of association cannot be changed")


def check_uniform(lifecycles: Mapping[str, str | None]) -> None:
    """Raise 42212 unless all associations of a resource have the same lifecycle.

    ``lifecycles`` has one for each type.
    """
    if len(set(lifecycles.values())) > 1:
        stated = ", ".join(f"{kind}={lifecycle}" for kind, lifecycle in lifecycles.items())
        raise invalid_association("lifecycle", f"all associations of a resource have the same lifecycle, not {stated}")


def is_same(existing: Association, request: Wanted) -> bool:
    """Return True if ``existing`` already has the requested subject and lifecycle."""
    return (existing.subject, existing.lifecycle) == (request.subject, request.lifecycle)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssociationFilter:
    """A filter for associations: types of resources and associations (all if empty), and a lifecycle."""

    resource: str = ""
    types: Sequence[str] = ()
    lifecycle: str | None = None

    def __call__(self, association: Association) -> bool:
        return (
            self.resource in ("", association.resource.type)
            and (not self.types or association.type in self.types)
            and self.lifecycle in (None, association.lifecycle)
        )


def read_filter(resource: str, types: Sequence[str], lifecycle: str) -> AssociationFilter:
    """Read the filter in a request. Raises 42212."""
    return AssociationFilter(
        resource=resource,
        types=tuple(type_name for type_name in types if type_name),
        lifecycle=_check_lifecycle(lifecycle),
    )


def _check_lifecycle(text: str) -> str | None:
    if text and text not in LIFECYCLES:
        raise invalid_association("lifecycle", "must be STRONG or WEAK")
    return text or None


def _read_text(body: Mapping[str, JSON], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str | None):
        raise invalid_association(name, "has to be a string")
    return value or ""


def _read_flag(body: Mapping[str, JSON], name: str) -> bool | None:
    value = body.get(name)
    if not isinstance(value, bool | None):
        raise invalid_association(name, "has to be true or false")
    return value
