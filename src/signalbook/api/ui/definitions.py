"""Look up message definitions in the registry for the package ``messages``, with their bases and schemas.

Everything is read in one view. So only entities that the caller can read are used, and nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from signalbook.engine.read.pages import PageRequest
from signalbook.engine.read.schemas import SchemaReferences
from signalbook.engine.read.view import View, ViewOptions
from signalbook.errors import RegistryError
from signalbook.messages import Contract, Policy, SchemaDocument
from signalbook.messages.definitions.definition import CompiledDefinition, compile_definition
from signalbook.messages.definitions.normalise import Materialised, materialise
from signalbook.messages.definitions.schemas import ContractSchemas
from signalbook.messages.definitions.source import DefinitionSource
from signalbook.values import JSON, JSONObject
from signalbook.work import spend
from signalbook.xid import ROOT, Kind, Xid, XidError

MOST: Final = 200
"""The maximum number of definitions that a message is checked against; a group may have thousands."""
MESSAGES: Final = "messages"
_DOCUMENTED: Final = (Kind.RESOURCE, Kind.VERSION)


def is_message(view: View, xid: Xid) -> bool:
    """Return True if an entity is a message definition, by the default model's names."""
    return xid.resource_type == MESSAGES and xid.kind in _DOCUMENTED and view.model.resource_type(xid) is not None


@dataclass(kw_only=True)
class RegistryDefinitions:
    """Looks up definitions and schemas in a view. Each is read once."""

    view: View
    root: str
    _entities: dict[Xid, JSONObject | None] = field(default_factory=dict)
    _references: SchemaReferences | None = None

    def load_raw(self, xid: Xid) -> JSONObject | None:
        """Return a definition as the registry has it, or None if it does not exist or is a dangling cross reference."""
        if xid not in self._entities:
            self._entities[xid] = self._read(xid)
        return self._entities[xid]

    def base(self, reference: str) -> Mapping[str, JSON] | None:
        """Return the definition that a ``basemessage`` refers to, or None."""
        xid = self.find_xid(reference)
        return None if xid is None else self.load_raw(xid)

    def find_xid(self, reference: str) -> Xid | None:
        """Return the xid that a reference names, whether the entity exists or not; None if it is no Resource or Version
        of the model."""
        text = reference.removeprefix(self.root).removeprefix("#").removesuffix("$details")
        try:
            xid = Xid.parse(text)
        except XidError:
            return None
        is_known = self.view.model.resource_type(xid) is not None
        return xid if is_known and xid.kind in _DOCUMENTED else None

    def schema(self, name: str) -> SchemaDocument | None:
        """Return the document that a reference names, or None if the registry does not have it.

        Raises ``TooComplex`` and ``OutOfTime`` if the document exceeds the limit of work.
        """
        xid = self.find_xid(name)
        if xid is None or self.view.model.documented_type(xid) is None:
            return None
        try:
            document = self.view.load_document(xid, ViewOptions())
        except RegistryError:
            return None
        if document.is_dangling:
            return None
        spend(len(document.content))
        version = xid.resource / "versions" / str(document.attributes["versionid"])
        format = str(document.attributes.get("format", ""))  # noqa: A001  the spec's name
        return (
            None
            if document.url is not None
            else SchemaDocument(content=document.content, format=format, xid=str(version))
        )

    def schemas(self) -> ContractSchemas:
        """Return the schemas of definitions, none of them parsed yet."""
        return ContractSchemas(self.schema, self.referred)

    def referred(self, name: str, xid: str) -> bytes | None:
        """Return the document that the schema ``xid`` calls ``name``. Raises ``TooComplex`` and ``OutOfTime``."""
        if self._references is None:
            self._references = SchemaReferences(self.view, self.root)
        try:
            referring = Xid.parse(xid)
        except XidError:  # a schema in a definition is in no group of schemas
            referring = ROOT
        content = self._references.find_content(referring, name)
        spend(len(content or b""))
        return content

    def materialised(self, xid: Xid) -> Materialised | None:
        """Return a definition completed by its bases."""
        raw = self.load_raw(xid)
        return None if raw is None else materialise(raw, self.base)

    def compile(self, xid: Xid, materialised: Materialised) -> CompiledDefinition:
        """Return a definition ready for use. Raises ``DefinitionError``."""
        return compile_definition(str(xid), materialised.definition, self.schemas(), Policy())

    def build_contract(self, xid: Xid) -> Contract:
        """Return the contract of the definition ``xid`` and up to ``MOST`` definitions of its group, because routing
        compares them."""
        group = xid.resource.parent
        listed = self.view.list_members(group, ViewOptions(), PageRequest(limit=MOST))
        members = self.view.render_members(group, listed, ViewOptions())
        # A dangling cross reference has no attributes, so as a definition it would match every message.
        definitions = {f"{group}/{name}": member for name, member in members.items() if "versionid" in member}
        own_definition = self.load_raw(xid)
        definitions |= {str(xid.resource): own_definition} if own_definition is not None else {}
        source = DefinitionSource(definitions=definitions, schemas=self.schema, bases=self.base, imports=self.referred)
        return Contract.of_source(source, Policy())

    def _read(self, xid: Xid) -> JSONObject | None:
        try:
            entity = self.view.render_entity(xid, ViewOptions(base_url=self.root))
        except RegistryError:
            return None
        return entity if "versionid" in entity else None
