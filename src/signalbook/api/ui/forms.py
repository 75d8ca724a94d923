"""Forms that write: the fields of an existing or a new entity, and the command for what was entered.

A form contains the state that it was made from. The transaction of the write reads the state again. If it has changed,
nothing is written.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from markupsafe import escape

from signalbook.access.base import Action, Forbidden
from signalbook.access.decisions import Access
from signalbook.api.kernel.requests import HTTPRequest, parse_form, parse_json_body
from signalbook.api.ui.comparison import build_choice
from signalbook.api.ui.documents import format_json, indent_single_line
from signalbook.api.ui.entities import can_have_rule, find_attributes
from signalbook.api.ui.explanations import COMPATIBILITIES
from signalbook.api.ui.pages import escape_hidden, restore_hidden
from signalbook.documents import guess_content_type, guess_format
from signalbook.engine.engine import Session
from signalbook.engine.read.view import View, ViewOptions
from signalbook.engine.write.apply import WriteResult
from signalbook.engine.write.commands import Command, DocumentBody, Method
from signalbook.errors import RegistryError
from signalbook.model import GroupType, ResourceType
from signalbook.values import JSON, JSONObject, dump_json
from signalbook.xid import Kind, Xid, XidError, check_id

_FIELDS: Final = 80
_LINE: Final = 15_000
_CODE: Final = 60_000
"""The maximum bytes of a field's original text. Longer texts cannot be edited here, so that pages stay small."""
_ORIGINALS: Final = 40_000
"""The maximum bytes of original values in a page, by which a conflict can be shown. If there are more, none are
included."""
_WAS: Final = "was."
_LINES: Final = {"name": "Name", "documentation": "Documentation, a URL"}
_DEPRECATED: Final = {
    "effective": "Deprecated from",
    "removal": "Removed from",
    "alternative": "What to use instead, a URL",
    "documentation": "More about it, a URL",
}
_DATE_HINTS: Final = {
    "effective": "The beginning of the day in UTC.",
    "removal": "The beginning of the day in UTC, not before the deprecation.",
}
"""The hints for the members of a deprecation that are dates."""
_MIDNIGHT: Final = "T00:00:00Z"
_ISO_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MANAGED: Final = frozenset(
    {"self", "shortself", "xid", "epoch", "createdat", "modifiedat", "isdefault", "versionid", "ancestorid"}
)
_NO_RULE: Final = "none: versions are compared only if a level of the Confluent API is set"
_DEFAULT_RULE: Final = "not chosen: the default rule of the server, if it has one"
_TOO_LONG: Final = "It is too long, or no text, and is not shown here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a form. ``kind`` is line, date, text, code, mark or choice; ``conflict`` is a change that
    another user made after the form was filled in."""

    name: str
    label: str
    value: str
    kind: str = "line"
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    conflict: FieldConflict | None = None
    wrong: bool = False

    @property
    def id(self) -> str:
        """The id of the field's HTML element."""
        return f"field-{self.name.replace('.', '-')}"

    @property
    def rows(self) -> int:
        """The number of visible lines of the field, which depends on its text."""
        return 4 if self.kind != "code" else 18 if self.name == "document" else min(18, 5 + self.value.count("\n"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldConflict:
    """The value stored when a form was opened (None if unknown), and the value stored now.

    ``mine`` is True if the user of the form changed the field, ``theirs`` if the stored value was changed since.
    """

    was: str | None
    stored: str
    mine: bool
    theirs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """A submitted form: the texts of the fields, and the original values as far as known."""

    values: Mapping[str, str]
    was: Mapping[str, str]
    made_from: str
    token: str
    checks: bool

    @classmethod
    def read(cls, body: bytes, request: HTTPRequest) -> Entered:
        """Read the form in a body. Raises ``bad_request``."""
        fields = parse_form(body, request, most=_FIELDS)
        # Browsers end all lines with CR LF.
        values = {name: text.replace("\r\n", "\n") for name, text in fields.items()}
        made_from, token, checks = values.pop("made-from", ""), values.pop("token", ""), values.pop("do", "") != "save"
        was = {name.removeprefix(_WAS): text for name, text in values.items() if name.startswith(_WAS)}
        entered = {name: text for name, text in values.items() if not name.startswith(_WAS)}
        return cls(values=entered, was=was, made_from=made_from, token=token, checks=checks)

    def text(self, field: Field) -> str:
        """Return the text for a field. An unset mark is not sent."""
        return self.values.get(field.name, "" if field.kind == "mark" else field.value)

    def detect_format(self) -> str:
        """Return the format that the document shows, or ``""`` if it shows none or the user chose a format.

        This parses the document, so call it before the turn of a write.
        """
        document = restore_hidden(self.values.get("document", ""))
        if not document or self.values.get("format", "").strip():
            return ""
        return guess_format("", document.encode("utf-8", "replace"))


def merge_field(field: Field, entered: Entered) -> Field:
    """Return a field of a form whose entity was changed after the form was made.

    The field has the entered text if the user changed it, otherwise the stored text. ``field`` has the stored text.
    """
    text, was = entered.text(field), entered.was.get(field.name)
    if text == field.value:
        return field
    conflict = FieldConflict(was=was, stored=field.value, mine=text != was, theirs=field.value != was)
    return replace(field, value=format_field(text) if conflict.mine else field.value, conflict=conflict)


def list_originals(fields: Iterable[Field]) -> tuple[tuple[str, str], ...]:
    """Return hidden fields with the original values, or none if they are too long for a page."""
    hidden_fields = tuple((f"{_WAS}{field.name}", field.value) for field in fields)
    return (
        hidden_fields
        if sum(len(escape(text).encode("utf-8", "replace")) for _, text in hidden_fields) <= _ORIGINALS
        else ()
    )


class Form(Protocol):
    """The editable part of an entity: its fields, and the command for a submitted form, None for no change."""

    @property
    def made_from(self) -> str:
        """A text that changes whenever the stored values do."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields with the stored values."""

    def command(self, view: View, posted: Posted) -> Command | None:
        """Return the command for a submitted form, or None without a change. Raises ``RegistryError`` for invalid
        fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributesForm:
    """The form for common attributes of a Group, a meta or a Version, as far as the model has them."""

    xid: Xid
    stored: JSONObject
    fields: tuple[Field, ...]

    @classmethod
    def of(cls, view: View, xid: Xid) -> AttributesForm:
        """Return the form for an entity. Raises ``not_found``."""
        stored = view.render_entity(xid, ViewOptions())
        names = find_attributes(view.model, xid).active(stored)
        fields = [*_list_described_fields(stored), *_list_deprecation_fields(stored)]
        if xid.kind is Kind.META:
            fields.append(_build_default_version_field(view, xid, stored))
            if can_have_rule(view.model, xid):
                fields.insert(0, _build_compatibility_field(format_field(stored.get("compatibility", "")), _NO_RULE))
        editable = tuple(
            field for field in fields if field.name.partition(".")[0] in names and _is_short_enough(field.value, _LINE)
        )
        return cls(xid=xid, stored=stored, fields=editable)

    @property
    def made_from(self) -> str:
        """The epoch and time of creation, so that an entity that was deleted and created again is noticed."""
        return f"{self.stored['epoch']} {self.stored['createdat']}"

    def command(self, view: View, posted: Posted) -> Command | None:  # noqa: ARG002
        """Return a command that merges the changed fields, or None without a change."""
        texts = {field.name: posted.entered.text(field) for field in self.fields}
        changed = {field.name for field in self.fields if texts[field.name] != field.value}
        body: JSONObject = {
            name: restore_hidden(texts[name]) or None
            for name in changed & {"name", "description", "documentation", "compatibility"}
        }
        if "labels" in changed:
            body["labels"] = _parse_labels(texts["labels"], self.xid) or None
        if any(name.startswith("deprecated") for name in changed):
            body["deprecated"] = self._build_deprecated(texts)
        if "defaultversionid" in changed:
            versionid = texts["defaultversionid"].strip()
            body |= {"defaultversionid": versionid or None, "defaultversionsticky": bool(versionid)}
        return Command(method=Method.PATCH, target=self.xid, body=body, base_url=posted.root) if body else None

    def _build_deprecated(self, texts: Mapping[str, str]) -> JSONObject | None:
        details = {name: texts.get(f"deprecated.{name}", "").strip() for name in _DEPRECATED}
        was = self.stored.get("deprecated")
        if not texts["deprecated"]:
            if was is None and any(details.values()):
                raise _build_error(
                    self.xid, "deprecated", "details of a deprecation are given: mark it as deprecated, too"
                )
            return None
        # Keep the members that the form does not show.
        unshown = {name: value for name, value in (was or {}).items() if f"deprecated.{name}" not in texts}
        return unshown | {name: restore_hidden(_add_time(text)) for name, text in details.items() if text}


def _build_error(xid: Xid, name: str, detail: str) -> RegistryError:
    return RegistryError("invalid_attribute", subject=str(xid), name=name, error_detail=detail)


def _parse_labels(text: str, xid: Xid) -> JSONObject:
    """Return the labels in the lines of a field."""
    pairs = [line.partition("=") for line in text.split("\n") if line.strip()]
    names = [name.strip() for name, _, _ in pairs]
    if len(set(names)) < len(names):
        raise _build_error(xid, "labels", "a label is there twice")
    return {name: restore_hidden(value.strip()) for name, (_, _, value) in zip(names, pairs, strict=True)}


def _parse_attributes(text: str, xid: Xid, max_depth: int) -> JSONObject:
    """Return the attributes in a field for JSON."""
    try:
        value: JSON = parse_json_body(text.encode("utf-8"), str(xid), max_depth=max_depth)
    except RegistryError as error:
        raise _build_error(xid, "attributes", str(error)) from None
    if not isinstance(value, dict):
        raise _build_error(xid, "attributes", "they need to be a JSON object")
    return value


def _encode_document(texts: Mapping[str, str], xid: Xid) -> bytes:
    """Return the entered document. Raises ``RegistryError`` if it is empty."""
    if not texts["document"]:
        raise _build_error(xid, "document", "it is empty: enter the document of the new version")
    return texts["document"].encode("utf-8")


def _list_described_fields(stored: JSONObject) -> Iterator[Field]:
    for name, label in _LINES.items():
        yield Field(name=name, label=label, value=format_field(stored.get(name, "")))
    yield Field(name="description", label="Description", value=format_field(stored.get("description", "")), kind="text")
    labels = stored.get("labels", {})
    # A value of several lines, or with spaces around it, would not be the same when it is read back.
    if all("\n" not in label_text and label_text == label_text.strip() for label_text in labels.values()):
        lines = format_field("\n".join(f"{name}={value}" for name, value in labels.items()))
        yield Field(name="labels", label="Labels", value=lines, kind="text", hint="One in each line, as name=value.")


def _list_deprecation_fields(stored: JSONObject) -> Iterator[Field]:
    deprecated = stored.get("deprecated")
    yield Field(name="deprecated", label="It is deprecated", value="" if deprecated is None else "yes", kind="mark")
    for name, label in _DEPRECATED.items():
        value = format_field((deprecated or {}).get(name, ""))
        if name in _DATE_HINTS:
            yield _build_date_field(f"deprecated.{name}", label, value, _DATE_HINTS[name])
        else:
            yield Field(name=f"deprecated.{name}", label=label, value=value)


def _build_date_field(name: str, label: str, timestamp: str, hint: str) -> Field:
    """Return a field for a date. A timestamp with a time of day stays a text, because a date would lose the time."""
    day = timestamp.removesuffix(_MIDNIGHT)
    if timestamp and not _ISO_DATE.fullmatch(day):
        return Field(name=name, label=label, value=timestamp, hint="A time such as 2030-01-31T12:00:00Z, or a date.")
    return Field(name=name, label=label, value=day, kind="date", hint=hint)


def _add_time(text: str) -> str:
    """Return a timestamp for a date, and any other text unchanged."""
    return f"{text}{_MIDNIGHT}" if _ISO_DATE.fullmatch(text) else text


def _build_default_version_field(view: View, xid: Xid, stored: JSONObject) -> Field:
    value = str(stored["defaultversionid"]) if stored.get("defaultversionsticky") else ""
    label, ids = "Default version", build_choice(view, xid.resource).ids
    if not ids:
        return Field(name="defaultversionid", label=label, value=value, hint="Its id; nothing for the newest one.")
    choices = (
        ("", "the newest, whichever that is"),
        *((versionid, f"{versionid}, whatever is newer") for versionid in ids),
    )
    return Field(name="defaultversionid", label=label, value=value, kind="choice", choices=choices)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersionForm:
    """The form for a new Version, filled in with the default Version."""

    resource: Xid
    made_from: str
    documented: bool
    fields: tuple[Field, ...]

    @classmethod
    def of(cls, view: View, xid: Xid, *, filled: bool) -> NewVersionForm:
        """Return the form for a new Version in a collection. Raises ``not_found``.

        If ``filled``, the field for the document contains the stored document.
        """
        default = str(view.render_entity(xid.resource, ViewOptions())["versionid"])
        stored = view.render_entity(xid / default, ViewOptions())
        kind = view.model.resource_type(xid)
        assert kind is not None, "the path was checked"
        own_names = {f"{kind.singular}{suffix}" for suffix in ("", "id", "url", "base64", "proxyurl")}
        apart = {"format", "contenttype"} if kind.hasdocument else set()
        attributes = find_attributes(view.model, xid / default).active(stored)
        managed = {name for name, attribute in attributes.items() if attribute.definition.get("readonly")}
        remaining = {
            name: value for name, value in stored.items() if name not in _MANAGED | managed | own_names | apart
        }
        text = format_json(dump_json(remaining).decode())
        fields = [
            Field(
                name="versionid", label="Id of the new version", value="", hint="Leave it empty for the next number."
            ),
            *(_list_document_fields(view, xid / default, stored, filled=filled) if kind.hasdocument else ()),
            _build_code_field(
                "attributes", "Other attributes, as JSON" if kind.hasdocument else "Attributes, as JSON", text
            ),
        ]
        made_from = f"{default} {stored['epoch']} {stored['createdat']}"
        return cls(resource=xid.resource, made_from=made_from, documented=kind.hasdocument, fields=tuple(fields))

    def command(self, view: View, posted: Posted) -> Command | None:
        """Return the command that creates a Version, as a document or as attributes."""
        texts = {field.name: restore_hidden(posted.entered.text(field)) for field in self.fields}
        body = _parse_attributes(texts["attributes"], self.resource, posted.max_depth)
        body |= {name: texts[name].strip() for name in ("versionid", "format") if texts.get(name, "").strip()}
        versionid = body.get("versionid")
        # Without this check, the command would update the existing Version.
        if isinstance(versionid, str) and view.exists(self.resource / "versions" / versionid):
            raise _build_error(self.resource, "versionid", "there is a version of this id already")
        if not self.documented:
            return Command(method=Method.POST, target=self.resource, body=body, base_url=posted.root)
        document = DocumentBody(
            content=_encode_document(texts, self.resource),
            contenttype=texts["contenttype"].strip() or None,
            attributes=body,
        )
        return Command(method=Method.POST, target=self.resource, document=document, base_url=posted.root)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntityForm:
    """The form for a new Group, or a new Resource with its first Version, in a ``collection``."""

    collection: Xid
    resource_type: ResourceType | None
    fields: tuple[Field, ...]

    @property
    def made_from(self) -> str:
        """The text "new", because nothing is stored yet."""
        return "new"

    @classmethod
    def of(cls, view: View, xid: Xid) -> NewEntityForm:
        """Return the empty form for a collection of Groups or of Resources."""
        resource = view.model.resource_type(xid)
        kind = resource or view.model.groups[xid.group_type]
        documented = resource is not None and resource.hasdocument
        fields = [Field(name="id", label="Id", value="", hint=f"It is part of every URL: {xid}/ID.")]
        if resource is not None and resource.setversionid:
            label = "Id of its first version"
            fields.append(Field(name="versionid", label=label, value="", hint="Leave it empty for 1."))
        fields += [field for field in _list_described_fields({}) if field.name in kind.attributes]
        if can_have_rule(view.model, xid):
            fields.append(_build_compatibility_field("", _DEFAULT_RULE))
        if documented:
            fields += [
                _build_format_field(view, xid),
                Field(
                    name="contenttype",
                    label="Content type",
                    value="",
                    hint="Leave it empty for the content type of the format.",
                ),
                _build_code_field("document", "Document", ""),
            ]
        attributes_label = "Other attributes, as JSON"
        fields.append(
            replace(
                _build_code_field("attributes", attributes_label, "{}"),
                hint=_describe_needed(kind, {field.name for field in fields}),
            )
        )
        return cls(collection=xid, resource_type=resource, fields=tuple(fields))

    def command(self, view: View, posted: Posted) -> Command | None:
        """Return the command that creates the entity unless it exists. Raises ``RegistryError`` and ``Forbidden``."""
        texts = {field.name: restore_hidden(posted.entered.text(field)) for field in self.fields}
        xid = self._parse_xid(texts["id"].strip())
        posted.access.require(Action.CREATE, xid)
        if view.exists(xid):
            raise _build_error(xid, "id", "there is one of this id already")
        body = _parse_attributes(texts["attributes"], xid, posted.max_depth)
        body |= {name: text for name in (*_LINES, "description") if (text := texts.get(name, ""))}
        body |= {name: text for name in ("versionid", "format") if (text := texts.get(name, "").strip())}
        if labels := _parse_labels(texts.get("labels", ""), xid):
            body["labels"] = labels
        meta = body.get("meta", {})
        if texts.get("compatibility") and isinstance(meta, dict):
            body["meta"] = meta | {"compatibility": texts["compatibility"]}
        if "document" in texts:
            body |= self._build_document_attributes(texts, xid, body, posted.detected_format)
        return Command(method=Method.PUT, target=xid, body=body, base_url=posted.root)

    def _build_document_attributes(
        self, texts: Mapping[str, str], xid: Xid, body: JSONObject, detected_format: str
    ) -> JSONObject:
        """Return the attributes with the document, its format and its content type."""
        assert self.resource_type is not None, "only Resources have documents"
        document = _encode_document(texts, xid)
        format_name = body.get("format", detected_format)
        if not format_name and self.resource_type.attributes["format"].required:
            raise _build_error(xid, "format", "the document does not show its format: choose one")
        contenttype = texts["contenttype"].strip() or guess_content_type(str(format_name))
        attributes = {"format": format_name or None, "contenttype": contenttype or None}
        return {**attributes, f"{self.resource_type.singular}base64": base64.b64encode(document).decode("ascii")}

    def _parse_xid(self, text: str) -> Xid:
        try:
            return self.collection / check_id(text)
        except XidError as error:
            raise _build_error(self.collection, "id", str(error)) from None


def _describe_needed(entity_type: GroupType | ResourceType, field_names: Collection[str]) -> str:
    """Return the attributes that the model requires and that have no fields, in words."""
    ids = {f"{entity_type.singular}id", *field_names, *_MANAGED}
    needed = [
        f"{name} ({attribute.type})"
        for name, attribute in entity_type.attributes.items()
        if attribute.required
        and not (attribute.managed or attribute.readonly or name in ids or attribute.default is not None)
    ]
    return f"It needs {', '.join(needed)}." if needed else ""


def _build_format_field(view: View, collection: Xid) -> Field:
    """Return the field for the format of a new Resource: detected, or one of the formats that the registry supports."""
    # Groups may state the format of all their Resources.
    group_format = str(view.render_entity(collection.owner, ViewOptions()).get("format", ""))
    names = [name for name in view.capabilities["formats"] if not name.endswith("/*")]
    if group_format and group_format not in names:
        names.append(group_format)
    choices = (("", "Detect it from the document"), *((name, name) for name in names))
    hint = "For a format that is not in the list, enter it as “format” under the other attributes."
    return Field(name="format", label="Format", value=group_format, kind="choice", choices=choices, hint=hint)


def _build_compatibility_field(rule: str, no_rule: str) -> Field:
    """Return the field for the compatibility rule of a Resource; ``no_rule`` is the text for no rule."""
    choices = [("", no_rule), *((name, f"{name}: {meaning}") for name, meaning in COMPATIBILITIES.items())]
    if rule and rule not in COMPATIBILITIES:
        # Rules are stored as they were sent, such as "BACKWARD". Without a choice for it, the browser would send "".
        choices.append((rule, f"{rule}: {COMPATIBILITIES.get(rule.casefold(), 'the stored rule')}"))
    hint = "A new version that breaks the rule is refused."
    return Field(
        name="compatibility", label="Compatibility", value=rule, kind="choice", choices=tuple(choices), hint=hint
    )


def _list_document_fields(view: View, xid: Xid, stored: JSONObject, *, filled: bool) -> Iterator[Field]:
    document = view.load_document(xid, ViewOptions())
    yield Field(name="format", label="Format", value=format_field(stored.get("format", "")))
    yield Field(name="contenttype", label="Content type", value=format_field(document.contenttype or ""))
    if not filled:
        yield _build_code_field("document", "Document", "")
        return
    try:
        text = document.content.decode("utf-8").replace("\r\n", "\n") if document.url is None else ""
    except UnicodeDecodeError:
        text = "\0" * _CODE
    indented = indent_single_line(text)
    # Indentation must not make a document too long to be shown.
    yield _build_code_field("document", "Document", indented if _fits_code_field(indented) else text)


def _build_code_field(name: str, label: str, text: str) -> Field:
    if _fits_code_field(text):
        return Field(name=name, label=label, value=format_field(text), kind="code")
    return Field(name=name, label=label, value="", kind="code", hint=f"{_TOO_LONG}: enter all of the new one.")


def _fits_code_field(text: str) -> bool:
    return _is_short_enough(format_field(text), _CODE)


def format_field(text: object) -> str:
    """Return a text as a form shows it, which ``restore_hidden`` reads back."""
    return str(escape_hidden(str(text)))


def _is_short_enough(text: str, most: int) -> bool:
    return len(text) <= most and len(escape(text).encode("utf-8", "replace")) <= most


def build_form(view: View, xid: Xid, *, filled: bool = True) -> Form:
    """Return the form for an entity, or for a new entity in a collection. Raises ``not_found``.

    A form for a new Version has the stored document only if ``filled``, because indenting it can take long.
    """
    if xid.kind in (Kind.GROUPS, Kind.RESOURCES):
        return NewEntityForm.of(view, xid)
    return NewVersionForm.of(view, xid, filled=filled) if xid.kind is Kind.VERSIONS else AttributesForm.of(view, xid)


def can_edit(access: Access, xid: Xid) -> bool:
    """Return True if ``access`` allows the form of an entity, or the form for a new entity in a collection."""
    if xid.kind in (Kind.GROUPS, Kind.RESOURCES):
        return access.is_readable(xid.owner) and access.allows_somewhere(Action.CREATE, xid)
    return access.may(Action.UPDATE, xid.resource)


def require_edit(access: Access, xid: Xid) -> None:
    """Raise ``Forbidden`` where ``can_edit`` is false."""
    if not can_edit(access, xid):
        raise Forbidden(Action.CREATE if xid.kind in (Kind.GROUPS, Kind.RESOURCES) else Action.UPDATE, xid.resource)


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A form that was sent for ``xid``. ``max_depth`` is the maximum depth of its JSON, ``detected_format`` the result
    of ``Entered.detect_format``."""

    xid: Xid
    entered: Entered
    detected_format: str
    root: str
    access: Access
    max_depth: int

    def execute(self, session: Session) -> WriteResult:
        """Execute the command of the form. Raises ``RegistryError`` and ``Forbidden``."""
        require_edit(self.access, self.xid)
        # This runs in the turn of a write. The stored document is not needed, because the form was sent with its text.
        form = build_form(session.view, self.xid, filled=False)
        if self.entered.made_from != form.made_from:
            form_epoch, stored = self.entered.made_from, form.made_from
            raise RegistryError("mismatched_epoch", subject=str(self.xid), bad_epoch=form_epoch, epoch=stored)
        command = form.command(session.view, self)
        return WriteResult(target=self.xid) if command is None else session.execute(command)
