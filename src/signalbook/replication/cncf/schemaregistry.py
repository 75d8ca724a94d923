"""Use registries with the API of the Schema Registry draft 0.2."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote, unquote

import httpx

from signalbook.client.registry import Refusal
from signalbook.cncf.schemaregistry import (
    Stated,
    build_version_attributes,
    draft_format,
    group_attributes,
    render_group,
)
from signalbook.replication.cncf.registry import CncfApi, Requests, route
from signalbook.replication.link import strip_origin
from signalbook.values import JSON, JSONObject

_TIME_MEMBERS: Final = ("createdtimeutc", "updatedtimeutc")


class SchemaRegistry(CncfApi):
    """The API of the Schema Registry draft."""

    kinds = ("schemagroups", "schemas")
    paths = ("schemagroups", "schemas")
    lookup = "schema"

    def __init__(self, requests: Requests) -> None:
        super().__init__(requests)
        self._stated: dict[str, bool] = {}

    def group(self, group: str) -> JSONObject | None:
        body = self._requests.json("schemagroups", group)
        if not isinstance(body, dict):
            return None
        return {name: value for name, value in group_attributes(body, {}).items() if value is not None}

    def put_group(self, group: str, attributes: Mapping[str, JSON]) -> None:
        whole = {**strip_origin(dict(attributes)), "schemagroupid": group, "createdat": "", "modifiedat": ""}
        body = {name: value for name, value in render_group(whole).items() if name not in (*_TIME_MEMBERS, "id")}
        self._requests.transport.send("PUT", route("schemagroups", group), json=body)
        self._stated.pop(group, None)

    def versions(self, group: str, member: str) -> Iterator[tuple[int, JSONObject]]:
        before = 0
        for number, response, path in self._load_documents(group, member):
            yield number, {**_read_attributes(response, path), "ancestorid": str(before or number)}
            before = number

    def post(self, group: str, member: str, version: JSONObject) -> None:
        """Post a version. Raises ``Refusal`` if its document is stored outside the registry."""
        if not isinstance(version.get("schemabase64"), str):
            raise Refusal("its document is kept elsewhere, which the CNCF draft cannot express")
        metadata = {"Authority": version.get("authority"), "Id": version.get("globaluri")}
        values = {"Description": version.get("description"), "Format": self._format(group, version)}
        # URIs are sent unchanged, other values percent-encoded.
        headers = {f"Schema-{name}": str(value) for name, value in metadata.items() if value}
        headers |= {f"Schema-{name}": quote(str(value), safe=" /:;,") for name, value in values.items() if value}
        if version.get("contenttype"):
            headers["Content-Type"] = str(version["contenttype"])
        content = base64.b64decode(version["schemabase64"])
        path = route("schemagroups", group, "schemas", member)
        self._requests.transport.send("POST", path, content=content, headers=headers)

    def _format(self, group: str, version: JSONObject) -> str | None:
        """Return the format to send, or None if the group states a format for all its schemas (A-15)."""
        if group not in self._stated:
            self._stated[group] = "format" in (self.group(group) or {})
        return None if self._stated[group] else draft_format(version)


def _read_attributes(response: httpx.Response, path: str) -> JSONObject:
    """Return the attributes of a version, including its document.

    An id that equals the path of the version is ignored: it was not set by a client (A-20).
    """
    headers = response.headers
    stated = Stated(
        format=unquote(headers.get("schema-format", "")),
        description=unquote(headers.get("schema-description", "")),
        authority=headers.get("schema-authority", ""),
        id="" if headers.get("schema-id", "") == path else headers.get("schema-id", ""),
    )
    attributes = build_version_attributes(stated, {}, None, response.content)
    if response.is_success:
        attributes["schemabase64"] = base64.b64encode(response.content).decode("ascii")
    else:
        attributes["schemaurl"] = headers.get("location", "")
    values = {"contenttype": headers.get("content-type"), "createdat": headers.get("schema-createdtimeutc")}
    return {**attributes, **{name: value for name, value in values.items() if value}}
