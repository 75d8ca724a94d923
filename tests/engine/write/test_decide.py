import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.engine.conftest import Make, Registry, model_of

from signalbook.engine.capabilities import list_initial
from signalbook.engine.checks import check_documents
from signalbook.engine.write.commands import Command, Method, read_intent
from signalbook.engine.write.context import Context, CrossReferences, DocumentNotStored, Documents, Lookup, Stored
from signalbook.engine.write.decide import CommandDecision
from signalbook.engine.write.references import make_document
from signalbook.engine.write.workingcopies import OwnerCopy, ResourceCopy, VersionCopy, WorkingTree
from signalbook.errors import RegistryError
from signalbook.formats.compatibility import SchemaText
from signalbook.model import Model, builtin, compile_model
from signalbook.storage.base import Row
from signalbook.values import JSON, JSONObject, digest
from signalbook.work import IN_TURN, Postponed, Work
from signalbook.xid import ROOT, Xid

FILES = "/dirs/d1/files"
F1 = f"{FILES}/f1"


class FakeLoader:
    """A loader of Versions next to a new one, and of documents, from memory. ``asked`` are the calls of its methods."""

    def __init__(self, *neighbours: Row, contents: tuple[bytes, ...] = ()) -> None:
        self.asked: list[str] = []
        self.documents = Documents()
        self.stored = Stored()
        self._neighbours = neighbours
        self._contents = {digest(content): content for content in contents}

    def load(self, lookup: Lookup) -> None:
        self.asked.append("load")
        self.documents.loaded |= {name: self._contents[name] for name in lookup.documents}

    def load_snapshot(self, lookup: Lookup) -> None:
        raise AssertionError("without a budget nothing is postponed")

    def add_neighbours(self, resource: ResourceCopy, mode: str) -> None:
        self.asked.append(f"add_neighbours {mode}")
        resource.add(VersionCopy.from_row(row) for row in self._neighbours)
        resource.open = {version.id for version in resource.versions.values() if version.before is None}
        resource.arrange()

    def add_compared(self, resource: ResourceCopy, changed: Collection[str]) -> None:
        self.asked.append(f"add_compared {', '.join(changed)}")

    def list_other_resources(self, groups: Collection[OwnerCopy]) -> dict[Xid, list[ResourceCopy]]:
        self.asked.append("list_other_resources")
        return {}

    def find_cross_references(self, other_resources: Mapping[Xid, Collection[ResourceCopy]]) -> CrossReferences:
        self.asked.append("find_cross_references")
        return CrossReferences()

    def list_messages(
        self, groups: Collection[Row], types: Collection[tuple[str, str]], limit: int
    ) -> dict[Xid, list[Xid]]:
        raise AssertionError("nothing here has messages")

    def list_members(self, group: Row, plural: str, after: str | None, limit: int) -> list[Row]:
        raise AssertionError("nothing here has messages")


NOW = datetime(2030, 1, 1, tzinfo=UTC)


def context_of(command: Command, model: Model, loader: FakeLoader) -> Context:
    return Context(
        model=model,
        capabilities=list_initial(),
        flags=command.flags,
        target=command.target,
        now=NOW,
        loader=loader,
    )


def decision_of(command: Command, model: Model, loader: FakeLoader) -> CommandDecision:
    """A decision about an empty registry."""
    context = context_of(command, model, loader)
    root = OwnerCopy(xid=ROOT, createdat=NOW, modifiedat=NOW, attributes={"registryid": "r"})
    return CommandDecision(command, WorkingTree(registry=root), context)


def test_a_decision_has_no_store() -> None:
    """A decision depends only on the loaded entities, and states what else it needs."""
    model = compile_model(model_of(hasdocument=False))
    command = Command(method=Method.PUT, target=Xid.parse(f"{F1}/versions/v1"), body={"name": "x"})
    loader = FakeLoader()
    decision = decision_of(command, model, loader)
    decision.add(read_intent(command, model))
    assert loader.asked == ["find_cross_references"]
    version = decision.tree.resources[Xid.parse(F1)].versions["v1"]
    assert (version.attributes, version.ancestorid) == ({"name": "x"}, "v1")


@pytest.mark.parametrize(("kind", "code"), [("long", ""), ("string", "compatibility_violation")])
def test_a_decision_asks_for_what_it_compares(kind: str, code: str) -> None:
    """Of a schema with many Versions, it loads the neighbours of the new one and the document of the previous one."""
    schema = Xid.parse("/schemagroups/g/schemas/s")
    before = b'{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
    stamps: dict[str, Any] = {"epoch": 1, "createdat": NOW, "modifiedat": NOW}
    attributes: JSONObject = {"format": "Avro/1.12", "formatvalidated": True, "compatibilityvalidated": True}
    first = Row(
        key=3,
        parent=2,
        xid=schema / "versions" / "1",
        ancestorid="1",
        document=digest(before),
        attributes=attributes,
        rank="",
        **stamps,
    )
    loader = FakeLoader(first, contents=(before,))
    model = compile_model(builtin("default"))
    body: JSONObject = {"schema": json.loads(before.replace(b"int", kind.encode())), "format": "Avro/1.12"}
    command = Command(method=Method.PUT, target=schema / "versions" / "2", body=body)
    decision = decision_of(command, model, loader)
    owner = Row(key=1, parent=0, xid=schema.owner, attributes={}, **stamps)
    resource = Row(
        key=2,
        parent=1,
        xid=schema,
        attributes={"compatibility": "backward"},
        defaultversionid="1",
        settled="manual",
        **stamps,
    )
    decision.tree.groups[schema.owner] = OwnerCopy.from_row(owner)
    copy = decision.tree.resources[schema] = ResourceCopy.from_row(resource)
    copy.stored_count = 100
    try:
        decision.add(read_intent(command, model))
        refused = ""
    except RegistryError as error:
        refused = error.code
    assert refused == code
    assert loader.asked[:3] == ["add_neighbours manual", "add_compared 2", "load"]
    assert copy.versions["2"].ancestorid == "1"


class UncommittedLoader(FakeLoader):
    """A loader of a schema that an earlier command of the transaction wrote: only the turn can load it."""

    def __init__(self, row: Row, content: bytes) -> None:
        super().__init__(contents=(content,))
        self._row = row

    def load(self, lookup: Lookup) -> None:
        self.stored.entities.update({xid: self._row if xid == self._row.xid else None for xid in lookup.entities})
        super().load(lookup)

    def load_snapshot(self, lookup: Lookup) -> None:
        self.stored.entities.update(dict.fromkeys(lookup.entities))
        for name in lookup.documents:
            raise DocumentNotStored(name)


def test_work_after_a_turn_uses_references_as_the_turn_resolved_them() -> None:
    """What is committed lacks the schema, so the turn would never accept a result without it."""
    schema, other, content = Xid.parse("/dirs/d/files/s/versions/1"), Xid.parse("/dirs/d/files/o/versions/1"), b"other"
    stamps: dict[str, Any] = {"epoch": 1, "createdat": NOW, "modifiedat": NOW, "attributes": {}}
    row = Row(key=1, parent=0, xid=other, document=digest(content), **stamps)
    large = b"x" * IN_TURN * 2
    command = Command(method=Method.PUT, target=schema, body={})
    budget = Work(steps=0, seconds=0)
    for _ in range(3):
        loader = UncommittedLoader(row, content)
        context = context_of(command, compile_model(model_of()), loader)
        name = context.documents.keep(large)
        outcome = None
        with suppress(Postponed), budget.in_turn():
            document = make_document(name, "JsonSchema/draft-07", schema, context)
            outcome = check_documents("key", [document], lambda text: [text.resolve(str(other))])
        if outcome is not None:
            break
        loader.documents.loaded.clear()  # as ``Documents.forget`` does for a Resource with many Versions
        budget.work_out()
    assert outcome is not None
    assert outcome.items == [content]


def test_schemas_with_equal_documents_and_references_are_checked_together() -> None:
    """Only the first schema is checked without its references, which are not loaded yet, and then with them."""
    other, content = Xid.parse("/dirs/d/files/o/versions/1"), b"other"
    stamps: dict[str, Any] = {"epoch": 1, "createdat": NOW, "modifiedat": NOW, "attributes": {}}
    row = Row(key=1, parent=0, xid=other, document=digest(content), **stamps)
    command = Command(method=Method.PUT, target=ROOT, body={})
    context = context_of(command, compile_model(model_of()), UncommittedLoader(row, content))
    name = context.documents.keep(b"x")
    resolved: list[bytes | None] = []

    def check(text: SchemaText) -> list[bytes | None]:
        assert text.resolve is not None
        resolved.append(text.resolve(str(other)))
        return resolved[-1:]

    with Work(steps=0, seconds=0).in_turn():
        for number in range(10):
            schema = Xid.parse(f"/dirs/d/files/f{number}/versions/1")
            document = make_document(name, "JsonSchema/draft-07", schema, context)
            outcome = check_documents("key", [document], check)
            assert outcome is not None
            assert outcome.items == [content]
    assert resolved[-1] == content
    assert len(resolved) <= 3


@pytest.mark.parametrize("path", ["/nope", "/nope/x", "/dirs/d1/nope", "/dirs/d1/nope/x"])
def test_unknown_types_in_a_path(registry: Registry, path: str) -> None:
    """GAP 14."""
    assert registry.refused("DELETE", path).code == "not_found"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/"),
        ("PUT", "/dirs"),
        ("PUT", f"{F1}/versions"),
        ("DELETE", f"{F1}/meta"),
        ("POST", f"{F1}/versions/1"),
    ],
)
def test_unsupported_methods_are_rejected(registry: Registry, method: str, path: str) -> None:
    assert registry.refused(method, path, {}).code == "action_not_supported"


@pytest.mark.parametrize(
    ("method", "path", "flag", "code"),
    [
        ("PUT", "/dirs/d1", "v1", "bad_flag"),
        ("POST", "/dirs/d1/files", "v1", "bad_flag"),
        ("DELETE", F1, "v1", "bad_flag"),
        ("PUT", F1, "request", "bad_flag"),
        ("POST", f"{F1}/versions", "request", "bad_flag"),
        ("PUT", F1, "", "bad_defaultversionid"),
    ],
)
def test_setdefaultversionid_misused(registry: Registry, method: str, path: str, flag: str, code: str) -> None:
    """Misuse of setdefaultversionid is rejected (R208-R211)."""
    registry.put(F1, {})
    assert registry.refused(method, path, {}, setdefaultversionid=flag).code == code


@pytest.mark.parametrize(
    ("method", "path", "body", "subject"),
    [
        ("PUT", F1, {}, F1),
        ("PATCH", F1, {"meta": {}}, F1),
        ("POST", F1, {}, F1),
        ("POST", f"{F1}/versions", {"v2": {}}, F1),
        ("PUT", f"{F1}/versions/v2", {}, F1),
        ("DELETE", f"{F1}/versions/v1", None, F1),
        ("DELETE", f"{F1}/versions", {"v1": {}}, F1),
        ("PATCH", f"{F1}/meta", {}, f"{F1}/meta"),
        ("POST", f"{FILES}/new", {}, f"{FILES}/new/meta"),
        ("POST", f"{FILES}/new/versions", {"v2": {}}, f"{FILES}/new/meta"),
    ],
)
def test_an_unknown_default_version(registry: Registry, method: str, path: str, body: JSON, subject: str) -> None:
    """The subjects are those of the reference server (R209, R278)."""
    registry.put(F1, {"versions": {"v1": {}, "v3": {}}})
    error = registry.refused(method, path, body, setdefaultversionid="nope")
    assert (error.code, error.subject) == ("unknown_id", subject)


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("POST", f"{F1}/versions", {"v1": {}, "v2": {}}, "too_many_versions"),
        ("PUT", F1, {"versions": {"v1": {}, "v2": {}}}, "too_many_versions"),
        ("PUT", F1, {"versions": {"v1": {}}}, "bad_flag"),
        ("POST", f"{F1}/versions", {"v1": {}}, "bad_flag"),
    ],
)
def test_request_stands_for_one_version(registry: Registry, method: str, path: str, body: JSON, code: str) -> None:
    """The value request needs exactly one version in the request (R210)."""
    error = registry.refused(method, path, body, setdefaultversionid="request")
    assert (error.code, error.subject) == (code, path)


def test_setdefaultversionid(registry: Registry) -> None:
    """R209, R210."""
    registry.put(F1, {"versionid": "v1"})
    registry.post(F1, {}, setdefaultversionid="request")
    assert (registry.row(F1).defaultversionid, registry.row(F1).defaultversionsticky) == ("1", True)
    registry.patch(f"{F1}/meta", {"defaultversionid": "v1"}, setdefaultversionid="null")
    assert not registry.row(F1).defaultversionsticky
    registry.delete(f"{F1}/versions/1", setdefaultversionid="v1")
    assert (registry.row(F1).defaultversionid, registry.row(F1).defaultversionsticky) == ("v1", True)
    error = registry.refused("POST", F1, {"versionid": "v1"}, setdefaultversionid="request")
    assert error.code == "defaultversionid_request"


def test_epoch_flag_is_for_deletes(registry: Registry) -> None:
    """The flag epoch is allowed only for deleting one entity (R179)."""
    assert registry.refused("PUT", F1, {}, epoch=1).code == "bad_flag"
    assert registry.refused("DELETE", "/dirs", epoch=1).code == "bad_flag"


def test_results(registry: Registry) -> None:
    """R151, R152."""
    result = registry.put(F1, {})
    assert (result.created, str(result.version)) == (True, f"{F1}/versions/1")
    result = registry.put(F1, {})
    assert (result.created, result.version) == (False, None)
    result = registry.put(f"{F1}/versions/v2", {})
    assert (result.created, str(result.version)) == (True, f"{F1}/versions/v2")
    result = registry.put("/dirs/d1/files/f2/meta", {})
    assert (result.created, str(result.version)) == (True, "/dirs/d1/files/f2/versions/1")
    assert registry.put("/", {}).created is False


def test_versions_of_a_new_resource_must_be_some(registry: Registry) -> None:
    assert registry.refused("POST", f"{F1}/versions", {}).code == "missing_versions"
    registry.put(F1, {})
    assert registry.post(f"{F1}/versions", {}).processed == ()


def test_registry_entity(registry: Registry) -> None:
    """R53, R58, R145."""
    registry.put("/", {"name": "n", "specversion": "0.1", "labels": {"a": "b"}, "dirs": {"d1": {}}})
    assert registry.row("/").attributes == {"registryid": "test", "name": "n", "labels": {"a": "b"}}
    registry.patch("/", {"name": None})
    assert registry.row("/").attributes == {"registryid": "test", "labels": {"a": "b"}}


@pytest.mark.parametrize(
    ("add", "raised"),
    [("/dirs/d2", [1, 0, 0]), ("/dirs/d1/files/f2", [0, 1, 0]), (f"{F1}/versions/v2", [0, 0, 1])],
)
def test_children_raise_their_owners_epoch_only(registry: Registry, add: str, raised: list[int]) -> None:
    """R37, R38, R172; a change of an existing child raises nothing above it."""
    registry.put(F1, {})
    paths = ("/", "/dirs/d1", F1)
    for method in ("PUT", "DELETE"):
        before = [registry.row(path).epoch for path in paths]
        registry.send(method, add, {})
        grown = [registry.row(path).epoch - old for path, old in zip(paths, before, strict=True)]
        assert grown == raised
    before = [registry.row(path).epoch for path in paths]
    registry.patch(f"{F1}/versions/1", {})
    assert [registry.row(path).epoch for path in paths] == before


def as_admin(registry: Registry, method: str, path: str, body: JSON = None) -> None:
    with registry.engine.writing(admin=True) as session:
        session.execute(Command(method=Method(method), target=Xid.parse(path), body=body))


def lock(registry: Registry, path: str) -> None:
    as_admin(registry, "PATCH", f"{path}/meta", {"readonly": True})


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", F1, {}),
        ("PATCH", f"{F1}/meta", {}),
        ("POST", F1, {}),
        ("DELETE", F1, None),
        ("DELETE", f"{F1}/versions/1", None),
        ("DELETE", "/dirs/d1", None),
        ("POST", "/dirs/d1/files", {"f1": {}}),
    ],
)
def test_read_only_resources(registry: Registry, method: str, path: str, body: JSON) -> None:
    """Writes to a read-only resource are rejected (R261)."""
    registry.put(F1, {"versions": {"1": {}, "2": {}}})
    lock(registry, F1)
    assert registry.refused(method, path, body).code == "readonly"


def test_read_only_resources_passed_over(registry: Registry) -> None:
    """Writes to read-only resources have no effect with the flag ignore (R207)."""
    registry.put(F1, {})
    lock(registry, F1)
    before = registry.row(F1)
    ignore = frozenset({"readonly"})
    result = registry.post("/dirs/d1/files", {"f1": {"name": "x"}, "f2": {}}, ignore=ignore)
    assert [str(xid) for xid in result.processed] == ["/dirs/d1/files/f2"]
    registry.delete("/dirs/d1/files", ignore=ignore)
    assert registry.row(F1) == before
    assert registry.find("/dirs/d1/files/f2") is None
    for method in ("PUT", "DELETE"):
        assert registry.refused(method, F1, {}, ignore=ignore).code == "bad_flag"


def test_an_admin_locks_and_unlocks(registry: Registry) -> None:
    """PATCH keeps the lock, PUT without the attribute removes it, and an administrator may write locked entities
    (R261).
    """
    registry.put(F1, {})
    lock(registry, F1)
    as_admin(registry, "PATCH", F1, {"name": "x", "meta": {"labels": {}}})
    assert registry.row(F1).attributes["readonly"] is True
    as_admin(registry, "PUT", f"{F1}/meta", {})
    registry.put(F1, {})
    lock(registry, F1)
    with pytest.raises(RegistryError, match="readonly"):
        as_admin(registry, "PATCH", f"{F1}/meta", {"readonly": "nonsense"})
    as_admin(registry, "DELETE", F1)
    assert registry.find(F1) is None


def test_clients_cannot_lock(registry: Registry) -> None:
    """Clients cannot set the attribute readonly (R261)."""
    registry.put(F1, {"meta": {"readonly": True}})
    registry.put(F1, {"meta": {"readonly": "nonsense"}})
    assert registry.row(F1).attributes == {}


@pytest.mark.parametrize(("method", "path"), [("POST", F1), ("PUT", f"{F1}/versions/v9")])
def test_a_version_too_old_to_be_kept_is_refused(make: Make, method: str, path: str) -> None:
    """The response would be empty (R93)."""
    registry = make(versionmode="createdat", maxversions=2)
    registry.put(F1, {"versions": {"v1": {}, "v2": {}}})
    error = registry.refused(method, path, {"createdat": "2020-01-01T00:00:00Z"})
    assert (error.code, "oldest" in error.detail or "oldest" in error.title) == ("bad_request", True)


@pytest.fixture
def tree(registry: Registry) -> Registry:
    versions: JSON = {"versions": {"v1": {}, "v2": {}}}
    registry.post("/", {"dirs": {"d1": {"files": {"f1": versions, "f2": {}}}, "d2": {"files": {"f1": {}}}}})
    return registry


@pytest.mark.parametrize("path", ["/dirs/x", f"{FILES}/x", f"{F1}/versions/x", "/dirs/x/files/f1", "/dirs/D1"])
def test_deleting_a_missing_entity_is_an_error(tree: Registry, path: str) -> None:
    """R171, R26."""
    error = tree.refused("DELETE", path)
    assert (error.code, error.subject) == ("not_found", path)


@pytest.mark.parametrize(
    ("path", "remaining"),
    [
        ("/dirs/d1", ["/", "/dirs/d2", "/dirs/d2/files/f1", "/dirs/d2/files/f1/versions/1"]),
        (F1, ["/", "/dirs/d1", "/dirs/d2", "/dirs/d1/files/f2", "/dirs/d2/files/f1"]),
    ],
)
def test_deletion_includes_descendants(tree: Registry, path: str, remaining: list[str]) -> None:
    """A deletion includes all descendants (R172)."""
    tree.delete(path)
    assert [str(row.xid) for row in tree.everything()][: len(remaining)] == remaining
    assert tree.find(path) is None
    assert tree.find(f"{F1}/versions/v1") is None


def test_deleting_the_last_version_deletes_its_resource(tree: Registry) -> None:
    """A resource without versions does not exist (R173)."""
    tree.delete(f"{F1}/versions/v1")
    assert tree.find(F1) is not None
    epoch = tree.row("/dirs/d1").epoch
    tree.delete(f"{F1}/versions/v2")
    assert tree.find(F1) is None
    assert tree.row("/dirs/d1").epoch == epoch + 1


@pytest.mark.parametrize(
    ("path", "body", "gone"),
    [
        (FILES, None, {"f1", "f2"}),
        (FILES, {}, set()),
        (FILES, {"f2": {}, "nope": {}}, {"f2"}),
        (FILES, {"f2": {"fileid": "f2", "name": [], "meta": {"epoch": 1, "x": []}}}, {"f2"}),
        (FILES, {"f2": {"epoch": 99, "meta": {"epoch": 1}}}, {"f2"}),
        (f"{F1}/versions", None, {"f1"}),
        (f"{F1}/versions", {"v1": {}, "v2": {"epoch": 1}}, {"f1"}),
        (f"{F1}/versions", {}, set()),
    ],
)
def test_collections(tree: Registry, path: str, body: JSON, gone: set[str]) -> None:
    """R169, R170."""
    tree.delete(path, body)
    assert {name for name in ("f1", "f2") if tree.find(f"{FILES}/{name}") is None} == gone


@pytest.mark.parametrize(
    ("path", "body", "code", "subject"),
    [
        (FILES, {"f1": {}, "f2": {"fileid": "f1"}}, "mismatched_id", f"{FILES}/f2"),
        (FILES, {"f1": {}, "f2": {"meta": {"fileid": "f1"}}}, "mismatched_id", f"{FILES}/f2"),
        (FILES, {"f1": {}, "f2": {"epoch": 1}}, "misplaced_epoch", f"{FILES}/f2"),
        (FILES, {"f1": {}, "f2": {"meta": {"epoch": 2}}}, "mismatched_epoch", f"{FILES}/f2/meta"),
        (FILES, {"f1": {}, "f2": {"meta": {"epoch": "1x"}}}, "invalid_attribute", f"{FILES}/f2/meta"),
        ("/dirs", {"d2": {"epoch": 2}}, "mismatched_epoch", "/dirs/d2"),
        (f"{F1}/versions", {"v1": {"epoch": 2}}, "mismatched_epoch", f"{F1}/versions/v1"),
        (f"{F1}/versions", {"v1": {"versionid": "v2"}}, "mismatched_id", f"{F1}/versions/v1"),
        (FILES, [], "bad_request", FILES),
        (FILES, {"f1": None}, "bad_request", FILES),
    ],
)
def test_refused(tree: Registry, path: str, body: JSON, code: str, subject: str) -> None:
    """The subjects are those of the reference server (R169, R170)."""
    error = tree.refused("DELETE", path, body)
    assert (error.code, error.subject) == (code, subject)


@pytest.mark.parametrize(
    ("path", "subject"), [("/dirs/d2", "/dirs/d2"), (F1, f"{F1}/meta"), (f"{F1}/versions/v1", f"{F1}/versions/v1")]
)
def test_epoch_flag(tree: Registry, path: str, subject: str) -> None:
    """R171, R179, R205."""
    error = tree.refused("DELETE", path, epoch=5)
    assert (error.code, error.subject) == ("mismatched_epoch", subject)
    tree.delete(path, epoch=5, ignore=frozenset({"epoch"}))
    assert tree.find(path) is None


@pytest.mark.parametrize("path", ["/dirs/d1", F1])
def test_promised_to_stay(tree: Registry, path: str) -> None:
    """R46, GAP 28."""
    deprecated = {"deprecated": {"removal": "9999-01-01T00:00:00Z"}}
    tree.patch(path, deprecated if path == "/dirs/d1" else {"meta": deprecated})
    error = tree.refused("DELETE", path)
    assert error.code == "bad_request"
    assert "9999" in error.title
    tree.patch(path, {"deprecated": None} if path == "/dirs/d1" else {"meta": {"deprecated": None}})
    tree.delete(path)


@pytest.mark.parametrize("path", ["/dirs", "/dirs/d1", f"{F1}/versions"])
def test_entity_with_a_future_removal_date_cannot_be_deleted(tree: Registry, path: str) -> None:
    """The deletion may be that of an ancestor or of the last Version (R46, R172, R173)."""
    tree.patch(f"{F1}/meta", {"deprecated": {"removal": "9999-01-01T00:00:00Z"}})
    error = tree.refused("DELETE", path)
    assert (error.code, error.subject) == ("bad_request", F1)
    assert tree.find(F1) is not None


def test_owners_change_once(tree: Registry) -> None:
    """Deleting several members changes the epoch of the owner once (R37)."""
    before = tree.row("/dirs/d1").epoch
    tree.delete(FILES)
    assert tree.row("/dirs/d1").epoch == before + 1
    tree.delete(FILES)
    assert tree.row("/dirs/d1").epoch == before + 1


def test_id_can_be_taken_again(tree: Registry) -> None:
    tree.delete(F1)
    tree.put(F1, {})
    assert list(tree.versions()) == ["1"]


D1 = "/dirs/d1"
CONSTRAINTS_F1 = f"{D1}/files/f1"
V1 = f"{CONSTRAINTS_F1}/versions/1"
OPEN: JSONObject = {"attributes": {"kind": {"type": "string"}, "size": {"type": "integer"}}}


def registry_with(make: Make, constraints: JSONObject) -> Registry:
    return make({"constraints": constraints, "attributes": {"kind": {"type": "string"}}}, **OPEN)


def test_default(make: Make) -> None:
    """The default applies to each written Version, not to earlier ones (R105)."""
    registry = registry_with(make, {"files.kind": {"default": "a", "enum": ["a", "b"]}})
    registry.put(CONSTRAINTS_F1, {"size": 1})
    assert registry.row(V1).attributes == {"size": 1, "kind": "a"}
    registry.patch(CONSTRAINTS_F1, {"kind": "b"})
    assert registry.row(V1).attributes == {"size": 1, "kind": "b"}


@pytest.mark.parametrize(("method", "path"), [("PUT", CONSTRAINTS_F1), ("POST", CONSTRAINTS_F1), ("PUT", V1)])
def test_enum(make: Make, method: str, path: str) -> None:
    """R106, R109."""
    registry = registry_with(make, {"files.kind": {"enum": ["a", "b"]}})
    error = registry.refused(method, path, {"kind": "c"})
    assert (error.code, error.subject) == ("constraint_failure", CONSTRAINTS_F1)
    assert error.arguments == {"path": "kind", "kind": "enum"}
    registry.send(method, path, {"kind": "b"})


def test_equals(make: Make) -> None:
    """A change of the Group is checked against its whole content (R107, R109)."""
    registry = registry_with(make, {"files.kind": {"equals": "kind"}})
    registry.put(CONSTRAINTS_F1, {"kind": "x"})
    assert registry.refused("PATCH", D1, {"kind": "y"}).arguments["kind"] == "equals"
    registry.patch(D1, {"kind": "x"})
    assert registry.refused("POST", CONSTRAINTS_F1, {}).code == "constraint_failure"
    registry.post(CONSTRAINTS_F1, {"kind": "x"})
    registry.patch(D1, {"kind": "y", "files": {"f1": {"kind": "y", "versions": {"1": {"kind": "y"}}}}})


def test_instances_narrow(make: Make) -> None:
    """The constraints of a group narrow those of the model (R108)."""
    registry = registry_with(make, {"files.kind": {"enum": ["a", "b"]}})
    registry.put(D1, {"constraints": {"files.kind": {"enum": ["a"]}, "files.size": {"enum": [1, 2]}}})
    assert registry.refused("PUT", CONSTRAINTS_F1, {"kind": "b"}).code == "constraint_failure"
    assert registry.refused("PUT", CONSTRAINTS_F1, {"size": 3}).code == "constraint_failure"
    registry.put(CONSTRAINTS_F1, {"kind": "a", "size": 1})
    error = registry.refused("PATCH", D1, {"constraints": {"files.kind": {"enum": ["a", "c"]}}})
    assert (error.code, error.faults[0].path.startswith("constraints")) == ("invalid_attribute", True)


def test_new_constraints_meet_old_resources(make: Make) -> None:
    """Existing resources must satisfy new constraints (R109)."""
    registry = make(**OPEN)
    registry.put(CONSTRAINTS_F1, {"kind": "b"})
    error = registry.refused("PATCH", D1, {"constraints": {"files.kind": {"enum": ["a"]}}})
    assert error.code == "constraint_failure"


def test_constraints_apply_to_shown_references(make: Make) -> None:
    """A change of the Group is checked against its references (R109, R110)."""
    registry = make(**OPEN)
    registry.put("/dirs/d2/files/target", {"kind": "b"})
    registry.put(CONSTRAINTS_F1, {"meta": {"xref": "/dirs/d2/files/target"}})
    error = registry.refused("PATCH", D1, {"constraints": {"files.kind": {"enum": ["a"]}}})
    assert (error.code, error.subject) == ("constraint_failure", CONSTRAINTS_F1)
    registry.patch(D1, {"constraints": {"files.kind": {"enum": ["b"]}}})


def test_constraints_apply_to_later_targets(make: Make) -> None:
    """The target of the reference is created later (R110)."""
    registry = make(**OPEN)
    registry.put(D1, {"constraints": {"files.kind": {"enum": ["a"]}}})
    registry.put(CONSTRAINTS_F1, {"meta": {"xref": "/dirs/d2/files/target"}})
    error = registry.refused("PUT", "/dirs/d2/files/target", {"kind": "b"})
    assert (error.code, error.subject) == ("constraint_failure", CONSTRAINTS_F1)
    registry.put("/dirs/d2/files/target", {"kind": "a"})


def test_references_are_constrained_too(make: Make) -> None:
    """The check happens when the reference is made, and when its target changes (R110)."""
    registry = make(**OPEN)
    registry.put("/dirs/d2/files/target", {"kind": "b"})
    registry.put(D1, {"constraints": {"files.kind": {"enum": ["a", "c"]}}})
    xref = {"meta": {"xref": "/dirs/d2/files/target"}}
    error = registry.refused("PUT", CONSTRAINTS_F1, xref)
    assert (error.code, error.subject) == ("constraint_failure", CONSTRAINTS_F1)
    registry.put("/dirs/d2/files/target", {"kind": "a"})
    registry.put(CONSTRAINTS_F1, xref)
    assert registry.refused("PUT", "/dirs/d2/files/target", {"kind": "b"}).code == "constraint_failure"
    registry.put("/dirs/d2/files/target", {"kind": "c"})
