"""Any sequence of writes leaves a store as it leaves plain dictionaries."""

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from msgspec.structs import replace
from tests.examples import examples

from signalbook.storage.base import DuplicateId, Row
from signalbook.storage.entity_writing import GroupUsage
from signalbook.storage.store import Store
from signalbook.values import JSONObject, digest
from signalbook.xid import ROOT, Xid

STAMP = datetime(2030, 1, 1, tzinfo=UTC)
IDS = st.sampled_from(["a", "A", "b", "B", "c1", "_"])
CONTENTS = st.none() | st.sampled_from([b"one", b"two", b"three"])
NUMBERS_AND_TEXTS = st.none() | st.integers(0, 9) | st.text(max_size=3)
ATTRIBUTES = st.dictionaries(st.sampled_from(["x", "y"]), NUMBERS_AND_TEXTS, max_size=2)


def usage(rows: dict[int, Row]) -> dict[Xid, tuple[int, int]]:
    """Versions and bytes of documents of each Group."""
    sizes = {digest(content): len(content) for content in (b"one", b"two", b"three")}
    usage_by_group = {row.xid: (0, 0) for row in rows.values() if len(row.xid.parts) == 2}
    for row in rows.values():
        if len(row.xid.parts) == 6:
            versions, size = usage_by_group[Xid(row.xid.parts[:2])]
            usage_by_group[Xid(row.xid.parts[:2])] = (versions + 1, size + sizes.get(row.document or "", 0))
    return usage_by_group


def growth(before: dict[int, Row], after: dict[int, Row]) -> dict[Xid, tuple[GroupUsage, GroupUsage]]:
    """Return what the remaining Groups gained and have."""
    old, new = usage(before), usage(after)
    return {
        xid: (
            GroupUsage(versions=new[xid][0] - old[xid][0], bytes=new[xid][1] - old[xid][1]),
            GroupUsage(versions=new[xid][0], bytes=new[xid][1]),
        )
        for xid in old.keys() & new.keys()
        if new[xid] != old[xid]
    }


class Machine(RuleBasedStateMachine):
    """The store beside its model: rows by key, documents, config, outbox."""

    store: Store

    @initialize()
    def empty(self) -> None:
        with self.store.write() as writer:
            old = writer.entities.get(ROOT)
            writer.entities.delete([old.key] if old else [])
            (self.root,) = writer.entities.reserve(1)
            writer.entities.insert([self.row(self.root, 0, ROOT)])
            writer.settings.put_config("c", None)
            self.epoch = writer.settings.config_epoch("c")
            self.start = max((record.position for record in writer.outbox.records(limit=10**6)), default=0)
        self.rows = {self.root: self.row(self.root, 0, ROOT)}
        self.changes: list[JSONObject] = []
        self.config: object = None

    def row(self, key: int, parent: int, xid: Xid, **more: Any) -> Row:
        return Row(key=key, parent=parent, xid=xid, epoch=1, createdat=STAMP, modifiedat=STAMP, **more)

    def attempt(self, write: Callable[[Any], dict[int, Row]], *, commit: bool) -> None:
        """Run ``write`` in a transaction; only a commit changes the model."""
        try:
            with self.store.write() as writer:
                with writer.savepoint() if commit else nullcontext():
                    rows = write(writer)
                    assert writer.entities.growth() == growth(self.rows, rows)
                self.compare(writer, rows)
                assert writer.entities.growth() == growth(self.rows, rows)
                if not commit:
                    raise InterruptedError
        except InterruptedError:
            return
        self.rows = rows

    @rule(data=st.data(), id=IDS, content=CONTENTS, attributes=ATTRIBUTES, commit=st.booleans())
    def insert(self, data: Any, id: str, content: bytes | None, attributes: JSONObject, commit: bool) -> None:
        parents = [row for row in self.rows.values() if len(row.xid.parts) < 6]
        parent = data.draw(st.sampled_from(parents))
        xid = Xid((*parent.xid.parts, ("gs", "rs", "versions")[len(parent.xid.parts) // 2], id))

        def write(writer: Any) -> dict[int, Row]:
            (key,) = writer.entities.reserve(1)
            document = None if content is None else digest(content)
            row = self.row(key, parent.key, xid, attributes=attributes, document=document)
            writer.entities.insert([row])
            writer.entities.put_documents({} if content is None else {digest(content): content})
            return {**self.rows, key: row}

        if any(r.parent == parent.key and r.xid.id.lower() == id.lower() for r in self.rows.values()):
            with pytest.raises(DuplicateId):
                self.attempt(write, commit=commit)
        else:
            self.attempt(write, commit=commit)

    @rule(data=st.data(), content=CONTENTS, attributes=ATTRIBUTES, commit=st.booleans())
    def update(self, data: Any, content: bytes | None, attributes: JSONObject, commit: bool) -> None:
        row = data.draw(st.sampled_from(list(self.rows.values())))
        version = len(row.xid.parts) == 6
        document = digest(content) if content is not None and version else row.document
        new = replace(row, epoch=row.epoch + 1, attributes=attributes, document=document)

        def write(writer: Any) -> dict[int, Row]:
            writer.entities.put_documents({digest(content): content} if content is not None else {})
            writer.entities.update([new])
            return {**self.rows, row.key: new}

        self.attempt(write, commit=commit)

    @rule(data=st.data(), commit=st.booleans())
    def delete(self, data: Any, commit: bool) -> None:
        doomed = data.draw(st.lists(st.sampled_from(list(self.rows.values())), max_size=2))
        tops = [row for row in doomed if row.xid != ROOT]

        def write(writer: Any) -> dict[int, Row]:
            writer.entities.delete([row.key for row in tops])
            below = tuple(str(row.xid) + "/" for row in tops)
            return {k: row for k, row in self.rows.items() if not f"{row.xid}/".startswith(below or ("none",))}

        self.attempt(write, commit=commit)

    @rule(value=st.none() | ATTRIBUTES)
    def put_config(self, value: object) -> None:
        with self.store.write() as writer:
            writer.settings.put_config("c", value)
        self.config = value
        self.epoch += 1

    @rule(changes=st.lists(ATTRIBUTES, max_size=3))
    def append(self, changes: list[JSONObject]) -> None:
        with self.store.write() as writer:
            writer.outbox.append(changes, time=STAMP, correlationid="c")
        self.changes += changes

    @invariant()
    def readers_see_the_model(self) -> None:
        with self.store.read() as reader:
            self.compare(reader, self.rows)
            assert (reader.settings.config("c"), reader.settings.config_epoch("c")) == (self.config, self.epoch)
            assert [record.change for record in reader.outbox.records(self.start)] == self.changes
            referenced = {row.document for row in self.rows.values()}
            stored_documents = reader.entities.documents([digest(content) for content in (b"one", b"two", b"three")])
            assert stored_documents.keys() == referenced - {None}

    def compare(self, reader: Any, rows: dict[int, Row]) -> None:
        expected = sorted(rows.values(), key=lambda row: (row.parent, row.xid.parts[-2:-1], row.xid.id.lower()))
        assert list(reader.entities.children([0, *rows])) == expected
        assert reader.entities.get_many([row.xid for row in expected]) == {row.xid: row for row in expected}
        counts = Counter((row.parent, row.xid.parts[-2] if row.xid.parts else "") for row in rows.values())
        assert reader.entities.counts([0, *rows]) == counts


def test_a_store_behaves_like_dictionaries(store: Store) -> None:
    class OnThisStore(Machine):
        pass

    OnThisStore.store = store
    checks = list(HealthCheck)
    steps = settings(max_examples=examples(40), stateful_step_count=25, deadline=None, suppress_health_check=checks)
    run_state_machine_as_test(OnThisStore, settings=steps)
