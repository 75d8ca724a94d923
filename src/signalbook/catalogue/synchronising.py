"""Making a registry say what a folder says, in one transaction, and touching only what is different.

What did not change keeps its epochs and times, so that caches and the change feed see just the difference.
"""

from __future__ import annotations

from typing import Final

from signalbook.catalogue.folder import Snapshot
from signalbook.documents import DocumentError, Upload, entities, extend_model
from signalbook.engine import capabilities
from signalbook.engine.commands import Command, ConfigCommand, Flags, Method
from signalbook.engine.configuration import MODELSOURCE
from signalbook.engine.engine import Engine, Session
from signalbook.engine.view import ViewOptions
from signalbook.errors import RegistryError
from signalbook.values import JSONObject, fingerprint, format_timestamp
from signalbook.xid import ROOT, Kind, Xid

NOTE: Final = "catalogue"
"""Under which the registry keeps what it was made of: ``revision``, ``since``, ``documents``, ``repairs``, ``mark``,
and ``parts``, a fingerprint for each Group and Resource."""
_IGNORED: Final = Flags(ignore=frozenset({"capabilities", "epoch", "id", "modelsource"}))
_CONFIGURATION: Final = ("capabilities", "model", "modelsource")


def synchronise(engine: Engine, snapshot: Snapshot, base: JSONObject) -> bool:
    """Bring ``engine``'s registry to ``snapshot``, and whether that changed anything.

    ``base`` is the model source that the documents' own extends. Where the way from what is there to what is wanted is
    barred (a model that neither old nor new entities fit), everything is made anew. The registry refuses writes
    afterwards. Raises ``RegistryError``, or ``DocumentError`` naming the files it is about; then nothing has changed.
    """
    try:
        try:
            return _write(engine, snapshot, base, anew=False)
        except RegistryError:
            return _write(engine, snapshot, base, anew=True)
    except RegistryError as error:
        places = [error.subject, *(fault.path for fault in error.faults)]
        named = "".join(f"\n  in {name}" for name in snapshot.source.naming(places))
        raise DocumentError(f"{error}{named}") from None


def _write(engine: Engine, snapshot: Snapshot, base: JSONObject, *, anew: bool) -> bool:
    with engine.writing(admin=True) as session:
        note = session.transaction.settings.get(NOTE) or {}
        if note.get("revision") == snapshot.revision:
            session.transaction.settings.put(NOTE, {**note, "mark": snapshot.mark})
            return False
        now = _parts(snapshot.document)
        before = {} if anew else {Xid.parse(xid): known for xid, known in note.get("parts", {}).items()}
        if anew:
            _clear(session)
        _delete(session, before.keys() - now.keys())
        _model(session, snapshot.document, base)
        _own(session, snapshot.document)
        prints = {xid: fingerprint(body) for xid, body in now.items()}
        _create(session, {xid: body for xid, body in now.items() if xid not in before})
        for xid, known in before.items():
            if prints.get(xid, known) != known:
                _replace(session, xid, now[xid])
        session.switch(_read_only())
        session.transaction.settings.put(
            NOTE, _note(snapshot, session, {str(xid): text for xid, text in prints.items()})
        )
    return True


def _note(snapshot: Snapshot, session: Session, parts: dict[str, str]) -> JSONObject:
    return {
        "revision": snapshot.revision,
        "since": format_timestamp(session.now),
        "documents": len(snapshot.source.parts),
        "repairs": len(snapshot.repairs),
        "mark": snapshot.mark,
        "parts": parts,
    }


def _parts(document: JSONObject) -> dict[Xid, JSONObject]:
    """Groups without their collections, and Resources with all that is theirs."""
    parts: dict[Xid, JSONObject] = {}
    for xid, body in entities(document):
        if xid.kind is Kind.GROUP:
            parts[xid] = dict(body)
        elif xid.kind is Kind.RESOURCE:
            parts[xid] = body
            parts[xid.owner].pop(xid.resource_type, None)
    return parts


def _clear(session: Session) -> None:
    for plural in session.view.model.groups:
        session.execute(Command(method=Method.DELETE, target=ROOT / plural))


def _delete(session: Session, gone: set[Xid]) -> None:
    for xid in sorted(gone):
        if xid.owner not in gone:
            session.execute(Command(method=Method.DELETE, target=xid))


def _model(session: Session, document: JSONObject, base: JSONObject) -> None:
    given = document.get(MODELSOURCE) or {}
    wanted = extend_model(Upload(target=ROOT, body={MODELSOURCE: given}), base).body.get(MODELSOURCE, base)
    if wanted != session.view.modelsource():
        session.execute(ConfigCommand(name=MODELSOURCE, method=Method.PUT, body=wanted))


def _own(session: Session, document: JSONObject) -> None:
    """The Registry's own attributes, if they are others."""
    plurals = set(session.view.model.groups)
    own = {name: value for name, value in document.items() if name not in plurals and name not in _CONFIGURATION}
    shown = session.view.entity(ROOT, ViewOptions())
    note = fingerprint(own)
    if note != session.transaction.settings.get(f"{NOTE}.own"):
        session.execute(
            Command(method=Method.PUT, target=ROOT, body={**own, "registryid": shown["registryid"]}, flags=_IGNORED)
        )
        session.transaction.settings.put(f"{NOTE}.own", note)


def _create(session: Session, new: dict[Xid, JSONObject]) -> None:
    """All at once: one tree is one write."""
    tree: JSONObject = {}
    for xid, body in new.items():
        place = tree
        for part in xid.parts:
            place = place.setdefault(part, {})
        place.update(body)
    if tree:
        session.execute(Command(method=Method.PATCH, target=ROOT, body=tree, flags=_IGNORED))


def _replace(session: Session, xid: Xid, body: JSONObject) -> None:
    """PUT resets what the body leaves out, but for Versions that it does not name: those go."""
    if xid.kind is Kind.RESOURCE and "versions" in body:
        there = (
            session.view.collection(xid / "versions", ViewOptions()) if session.view.exists(xid / "versions") else {}
        )
        session.execute(Command(method=Method.PUT, target=xid, body={"meta": {}, **body}, flags=_IGNORED))
        for name in there.keys() - body["versions"].keys():
            session.execute(Command(method=Method.DELETE, target=xid / "versions" / name))
    else:
        session.execute(Command(method=Method.PUT, target=xid, body=body, flags=_IGNORED))


def _read_only() -> JSONObject:
    """All capabilities, but that of changing anything."""
    wanted = capabilities.everything()
    wanted["available"] = {name: {"mutable": False} for name in wanted["available"]}
    return wanted
