from contextlib import suppress

import pytest
from tests.engine.conftest import model_of

from signalbook.engine.engine import Batch, Engine
from signalbook.engine.read.view import ViewOptions
from signalbook.engine.write.commands import Command, ConfigCommand, Method
from signalbook.engine.write.workingcopies import IdClash
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.storage.store import Store
from signalbook.values import JSON
from signalbook.xid import ROOT, Xid


def put(path: str, body: JSON = None) -> Command:
    return Command(method=Method.PUT, target=Xid.parse(path), body=body or {})


def model(body: JSON) -> ConfigCommand:
    return ConfigCommand(name="modelsource", method=Method.PUT, body=body)


def do(batch: Batch, *commands: Command | ConfigCommand) -> str:
    """Execute the commands in one session of the batch and return its correlation id."""
    with batch.writing() as session:
        for command in commands:
            session.execute(command)
        return session.correlationid


@pytest.fixture
def engine(store: Store) -> Engine:
    new_engine = Engine(store, settings=Settings(model="empty"))
    with new_engine.writing() as session:
        session.execute(model(model_of()))
    return new_engine


def groups(engine: Engine) -> set[str]:
    with engine.reading() as view:
        return {name for name in ("/dirs/a", "/dirs/b", "/dirs/c", "/boxes/a") if view.exists(Xid.parse(name))}


def test_failing_session_does_not_affect_the_others(engine: Engine) -> None:
    """A failing session is undone alone (R22)."""
    position = engine.read_changes(0, 100)[-1].position
    with engine.batch() as batch:
        ids = [do(batch, put("/dirs/a"))]
        with pytest.raises(RegistryError):
            do(batch, put("/dirs/b"), put("/dirs/b", {"epoch": 7}))
        ids.append(do(batch, put("/dirs/c")))
        assert groups(engine) == set()
    assert groups(engine) == {"/dirs/a", "/dirs/c"}
    changes = [(record.correlationid, record.change["xid"]) for record in engine.read_changes(position, 100)]
    assert changes == [(ids[0], "/"), (ids[0], "/dirs/a"), (ids[1], "/"), (ids[1], "/dirs/c")]


def test_a_session_sees_what_those_before_it_configured(engine: Engine) -> None:
    with engine.batch() as batch:
        do(batch, model({"groups": {**model_of()["groups"], "boxes": {"singular": "box"}}}))
        do(batch, put("/boxes/a"))
    assert groups(engine) == {"/boxes/a"}


@pytest.mark.parametrize("late", [True, False])
def test_undone_configuration_is_not_in_force(engine: Engine, late: bool) -> None:
    """The configuration affects neither later sessions nor what is cached between transactions."""
    with suppress(ZeroDivisionError), engine.batch() as batch:
        with suppress(ZeroDivisionError), batch.writing() as session:
            session.execute(model({"groups": {**model_of()["groups"], "boxes": {"singular": "box"}}}))
            assert late or 1 // 0
        assert not late or 1 // 0
        with pytest.raises(RegistryError):
            do(batch, put("/boxes/a"))
    with engine.batch() as batch:
        with pytest.raises(RegistryError):
            do(batch, put("/boxes/a"))
        do(batch, put("/dirs/a"))
    assert groups(engine) == {"/dirs/a"}


def test_entity_created_by_a_session_exists_for_later_ones(engine: Engine) -> None:
    """A refused session, too, learns which places are empty; two ids that differ in case have one place."""
    with engine.writing() as session:
        session.execute(put("/dirs/a"))
    with engine.batch() as batch:
        do(batch, put("/dirs/a", {"description": "x"}))
        with pytest.raises(RegistryError):
            do(batch, put("/dirs/a/files/b", {"fileid": "other"}))
        tree: JSON = {"dirs": {"c": {}, "a": {"files": {"b": {}}}}}
        do(batch, Command(method=Method.POST, target=ROOT, body=tree))
        with pytest.raises(IdClash):
            do(batch, put("/dirs/a/files/B"))
    with engine.reading() as view:
        assert list(view.render_collection(Xid.parse("/dirs/a/files"), ViewOptions())) == ["b"]


def test_invalid_ids_do_not_affect_a_batch(engine: Engine) -> None:
    with engine.batch() as batch:
        batch.expect([Xid(("dirs", "a")), Xid(("dirs", "\0")), Xid(("dirs", "b\0", "files", "f"))])
        do(batch, put("/dirs/a"))
    assert groups(engine) == {"/dirs/a"}
