"""Use registries with a Message Catalog API, of the first draft or of draft 0.1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote, unquote

import httpx

from signalbook.client import BadResponse
from signalbook.client.registry import Refusal
from signalbook.cncf.ids import entity_id
from signalbook.cncf.messagecatalog import definitions, documents, originals
from signalbook.cncf.messagecatalog.metaschemas import format_of
from signalbook.replication.cncf.registry import CncfApi, Requests, route
from signalbook.replication.link import strip_origin
from signalbook.values import JSON, JSONError, JSONObject, parse_json

_ROOT_PATH: Final = "messagecatalog"
_MEMBERS_PATH: Final = "messagedefinitions"
_SERVER: Final = ("createdtimeutc", "updatedtimeutc", "version")
_HEADER_PREFIX: Final = "messagedefinition-"


class _Catalog(CncfApi):
    """The common base of both Message Catalog drafts."""

    kinds = ("messagegroups", "messages")
    paths = ("messagecatalog", "messagedefinitions")
    lookup = "messagedefinition"

    def __init__(self, requests: Requests) -> None:
        super().__init__(requests)
        self._groups: dict[str, JSONObject] = {}

    def _put(self, group: str, body: JSONObject) -> None:
        sent = {name: value for name, value in body.items() if name not in _SERVER}
        self._requests.transport.send("PUT", route(_ROOT_PATH, group), json=sent)
        self._groups.pop(group, None)

    def _require_group(self, group: str) -> JSONObject:
        """Return the attributes of a group. Raises ``BadResponse`` if it does not exist."""
        if group not in self._groups:
            attributes = self.group(group)
            if attributes is None:
                raise BadResponse(f"{self.url}: there is no group {group}")
            self._groups[group] = attributes
        return self._groups[group]


class FirstMessageCatalog(_Catalog):
    """The API of the first draft."""

    def group(self, group: str) -> JSONObject | None:
        body = self._requests.json(_ROOT_PATH, group)
        return _drop_nulls(definitions.first_group_attributes(body)) if isinstance(body, dict) else None

    def put_group(self, group: str, attributes: Mapping[str, JSON]) -> None:
        self._put(group, definitions.render_first_group(_complete_group(group, attributes)))

    def versions(self, group: str, member: str) -> Iterator[tuple[int, JSONObject]]:
        owner, last = self._require_group(group), 0
        before: JSONObject | None = None
        for number, response, path in self._load_documents(group, member):
            before = _read_first_version(response, member, owner, before, path)
            yield number, {**before, "ancestorid": str(last or number)}
            last = number

    def post(self, group: str, member: str, version: JSONObject) -> None:
        form = format_of(self._require_group(group))
        sent = originals.render_content(form, member, 1, version)
        metadata = {"Authority": version.get("authority"), "Id": version.get("globaluri")}
        metadata |= {"Description": version.get("description")}
        headers = {
            f"{_HEADER_PREFIX}{name}": quote(str(value), safe="!#$&'()*+,/:;=?@[]~")
            for name, value in metadata.items()
            if value
        }
        if sent.contenttype is not None:
            headers["Content-Type"] = sent.contenttype
        path = route(_ROOT_PATH, group, _MEMBERS_PATH, member)
        self._requests.transport.send("POST", path, content=sent.body, headers=headers)


class MessageCatalog(_Catalog):
    """The API of the draft 0.1."""

    def group(self, group: str) -> JSONObject | None:
        body = self._requests.json(_ROOT_PATH, group)
        return _drop_nulls(definitions.group_attributes(body, {})) if isinstance(body, dict) else None

    def put_group(self, group: str, attributes: Mapping[str, JSON]) -> None:
        self._put(group, definitions.render_group(_complete_group(group, attributes)))

    def versions(self, group: str, member: str) -> Iterator[tuple[int, JSONObject]]:
        listed = self._requests.json(_ROOT_PATH, group, _MEMBERS_PATH, member, "versions")
        if not isinstance(listed, list) or not listed:
            return
        reading = documents.CatalogReader()
        # The last version has the attributes that all versions share. Read all versions as one document.
        shared = {name: value for name, value in listed[-1].items() if name not in _SERVER}
        document = {
            "id": group,
            "format": format_of(self._require_group(group)),
            "definitions": [{**shared, "versions": listed}],
        }
        read = documents.build_registry_group(reading.read_group(document))
        if reading.findings:
            raise BadResponse(
                f"{self.url}: {member} of {group}: {reading.findings[0].path}: {reading.findings[0].message}"
            )
        versions = read["messages"][entity_id(member)]["versions"]
        yield from sorted((int(number), version) for number, version in versions.items())

    def post(self, group: str, member: str, version: JSONObject) -> None:
        form = format_of(self._require_group(group))
        whole = {
            **strip_origin(version),
            "messageid": entity_id(member),
            "versionid": "1",
            "createdat": "",
            "modifiedat": "",
        }
        body = {
            name: value
            for name, value in definitions.render_definition(form, whole, whole).items()
            if name not in _SERVER
        }
        if not body.get("definition"):
            raise Refusal("it says nothing that the CNCF draft can express")
        path = route(_ROOT_PATH, group, _MEMBERS_PATH)
        self._requests.transport.send("POST", path, json=body)


def _read_first_version(
    response: httpx.Response, member: str, group: JSONObject, before: JSONObject | None, path: str
) -> JSONObject:
    """Return the attributes of a version of the first draft.

    An id that equals the path of the version is ignored: it was not set by a client (A-20).
    """
    headers, form = response.headers, format_of(group)
    values = {name: unquote(headers.get(f"{_HEADER_PREFIX}{name}", "")) for name in ("id", "description", "authority")}
    stated = {"description": values["description"], "authority": values["authority"]}
    stated |= {"versionuri": "" if values["id"] == path else values["id"]}
    content = originals.Content(body=response.content, contenttype=headers.get("content-type"))
    try:
        document = parse_json(response.content) if form in originals.KNOWN else None
    except JSONError as error:
        raise BadResponse(f"{response.url}: a definition of format {form} is JSON: {error}") from None
    posted = definitions.read_first_draft(
        member, form, document, content, {name: text for name, text in stated.items() if text}
    )
    return definitions.build_definition_attributes(form, posted, group, before)


def _complete_group(group: str, attributes: Mapping[str, JSON]) -> JSONObject:
    return {**strip_origin(dict(attributes)), "messagegroupid": entity_id(group), "createdat": "", "modifiedat": ""}


def _drop_nulls(attributes: JSONObject) -> JSONObject:
    return {name: value for name, value in attributes.items() if value is not None}
