"""The folder registry: documents in a folder, served as a read-only registry that follows them (``serve --from``).

``read_snapshot`` reads the folder, ``synchronise`` writes its content to a registry, and ``FolderWatch`` looks for
changes. A synchronisation writes only entities that differ. Other entities keep their epochs and times, so that caches
and the change feed see only the differences.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from signalbook.cncf.messagecatalog.documents import adopt_catalog_documents
from signalbook.documents import DocumentError, SourceDocument, Upload, extend_model, merge, read_folder, read_source
from signalbook.documents.importing import entities
from signalbook.engine import capabilities
from signalbook.engine.config.configuration import MODELSOURCE
from signalbook.engine.engine import Engine, Session
from signalbook.engine.read.view import ViewOptions
from signalbook.engine.write.commands import Command, ConfigCommand, Flags, Method
from signalbook.errors import RegistryError, SignalbookError
from signalbook.storage.store import KeyValueStore
from signalbook.values import JSONObject, fingerprint, format_timestamp
from signalbook.xid import ROOT, Kind, Xid

STATE_KEY: Final = "folder"
"""The setting in which the server stores from which documents it made the registry.

Its members are ``revision``, ``since``, ``documents``, ``repairs``, ``mark``, and ``parts`` with a fingerprint for each
Group and Resource.
"""

_LOG: Final = logging.getLogger("signalbook.folder_registry")
_LOGGED_REPAIRS: Final = 20
_UNFINISHED: Final = "L-37"
"""The rule of the lenient repair that completes a document which ends too early."""
_IGNORED: Final = Flags(ignore=frozenset({"capabilities", "epoch", "id", "modelsource"}))
_CONFIGURATION: Final = ("capabilities", "model", "modelsource")


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSnapshot:
    """All documents of a folder, merged into one.

    ``revision`` is a fingerprint of their content, regardless of formatting. ``mark`` is the ``folder_mark`` of the
    folder.
    """

    source: SourceDocument
    revision: str
    mark: str

    @property
    def document(self) -> JSONObject:
        """The content as the body of a write to the Registry."""
        content: JSONObject = self.source.document
        return content

    @property
    def repairs(self) -> tuple[str, ...]:
        """The repairs of the documents as text, each with the name of its file."""
        return tuple(f"{file}, {repair}" for file, repair in self.source.iterate_repairs())


def read_snapshot(folder: Path, *, lenient: bool = True) -> FolderSnapshot:
    """Read every document in ``folder``, which may also be a single file. Raises ``DocumentError``."""
    # Compute the mark before reading, so that a change during reading leads to another mark later.
    before = folder_mark(folder)
    sources = [read_source(folder, lenient=lenient)] if folder.is_file() else read_folder(folder, lenient=lenient)
    for source in sources:
        _check_complete(source)
    source = merge(adopt_catalog_documents(sources), name=str(folder))
    return FolderSnapshot(source=source, revision=fingerprint(source.document), mark=before)


def _check_complete(source: SourceDocument) -> None:
    """Raise ``DocumentError`` if a file ends too early.

    Such a file is probably still being written. The entities that it lacks must not be deleted from the registry.
    """
    for repair in source.repairs:
        if repair.rule == _UNFINISHED:
            raise DocumentError(f"{source.name}: line {repair.line}: the document ends before it is complete")


def folder_mark(folder: Path) -> str:
    """Return a fingerprint of the names, sizes and times of all files in ``folder``, except those in hidden folders."""
    return fingerprint(sorted(_walk_files(folder)))


def _walk_files(folder: Path) -> Iterator[tuple[str, int, int]]:
    for top, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            try:
                status = Path(top, name).stat()
            except OSError:  # deleted since the folder was listed: the next mark differs
                continue
            yield f"{top}/{name}", status.st_size, status.st_mtime_ns


def synchronise(engine: Engine, snapshot: FolderSnapshot, base: JSONObject) -> bool:
    """Write the content of ``snapshot`` to the registry of ``engine``. Return True if anything changed.

    Models in the documents extend the model source ``base``. If the changes cannot be applied one by one (for instance
    because the old entities do not fit the new model), all entities are deleted and created again. Afterwards the
    registry is read-only. Raises ``DocumentError``, which names the files, if nothing could be written.
    """
    try:
        try:
            return _write_snapshot(engine, snapshot, base, anew=False)
        except RegistryError:
            return _write_snapshot(engine, snapshot, base, anew=True)
    except RegistryError as error:
        paths = [error.subject, *(fault.path for fault in error.faults)]
        file_lines = "".join(f"\n  in {name}" for name in snapshot.source.find_parts_naming(paths))
        raise DocumentError(f"{error}{file_lines}") from None


def _write_snapshot(engine: Engine, snapshot: FolderSnapshot, base: JSONObject, *, anew: bool) -> bool:
    with engine.writing(admin=True) as session:
        state = session.transaction.settings.get(STATE_KEY) or {}
        if state.get("revision") == snapshot.revision:
            session.transaction.settings.put(STATE_KEY, {**state, "mark": snapshot.mark})
            return False
        now = _list_parts(snapshot.document)
        before = (
            {} if anew else {Xid.parse(xid): old_fingerprint for xid, old_fingerprint in state.get("parts", {}).items()}
        )
        if anew:
            _clear(session)
        _delete(session, before.keys() - now.keys())
        _write_model(session, snapshot.document, base)
        _write_registry(session, snapshot.document)
        fingerprints = {xid: fingerprint(body) for xid, body in now.items()}
        _create(session, {xid: body for xid, body in now.items() if xid not in before})
        for xid, old_fingerprint in before.items():
            if fingerprints.get(xid, old_fingerprint) != old_fingerprint:
                _replace(session, xid, now[xid])
        session.switch(_read_only())
        session.transaction.settings.put(
            STATE_KEY, _build_state(snapshot, session, {str(xid): text for xid, text in fingerprints.items()})
        )
    return True


def _build_state(snapshot: FolderSnapshot, session: Session, parts: dict[str, str]) -> JSONObject:
    return {
        "revision": snapshot.revision,
        "since": format_timestamp(session.now),
        "documents": len(snapshot.source.parts),
        "repairs": len(snapshot.repairs),
        "mark": snapshot.mark,
        "parts": parts,
    }


def _list_parts(document: JSONObject) -> dict[Xid, JSONObject]:
    """Return each Group without its Resources, and each Resource with its Versions, by xid."""
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


def _write_model(session: Session, document: JSONObject, base: JSONObject) -> None:
    stated = document.get(MODELSOURCE) or {}
    new_model = extend_model(Upload(target=ROOT, body={MODELSOURCE: stated}), base).body.get(MODELSOURCE, base)
    if new_model != session.view.modelsource():
        session.execute(ConfigCommand(name=MODELSOURCE, method=Method.PUT, body=new_model))


def _write_registry(session: Session, document: JSONObject) -> None:
    """Write the attributes of the Registry entity if they have changed."""
    plurals = set(session.view.model.groups)
    attributes = {name: value for name, value in document.items() if name not in plurals and name not in _CONFIGURATION}
    registry = session.view.render_entity(ROOT, ViewOptions())
    mark = fingerprint(attributes)
    if mark != session.transaction.settings.get(f"{STATE_KEY}.own"):
        session.execute(
            Command(
                method=Method.PUT,
                target=ROOT,
                body={**attributes, "registryid": registry["registryid"]},
                flags=_IGNORED,
            )
        )
        session.transaction.settings.put(f"{STATE_KEY}.own", mark)


def _create(session: Session, new: dict[Xid, JSONObject]) -> None:
    """Create everything in one write."""
    tree: JSONObject = {}
    for xid, body in new.items():
        node = tree
        for part in xid.parts:
            node = node.setdefault(part, {})
        node.update(body)
    if tree:
        session.execute(Command(method=Method.PATCH, target=ROOT, body=tree, flags=_IGNORED))


def _replace(session: Session, xid: Xid, body: JSONObject) -> None:
    """Replace an entity by ``body``.

    PUT resets attributes that ``body`` leaves out, but keeps Versions that it leaves out. These are deleted here.
    """
    if xid.kind is Kind.RESOURCE and "versions" in body:
        there = (
            session.view.render_collection(xid / "versions", ViewOptions())
            if session.view.exists(xid / "versions")
            else {}
        )
        session.execute(Command(method=Method.PUT, target=xid, body={"meta": {}, **body}, flags=_IGNORED))
        for name in there.keys() - body["versions"].keys():
            session.execute(Command(method=Method.DELETE, target=xid / "versions" / name))
    else:
        session.execute(Command(method=Method.PUT, target=xid, body=body, flags=_IGNORED))


def _read_only() -> JSONObject:
    """Return the initial capabilities, changed so that no entity is mutable."""
    offered = capabilities.list_initial()
    offered["available"] = {name: {"mutable": False} for name in offered["available"]}
    return offered


class FolderWatch:
    """Watches the folder that a registry is made from. Models in its documents extend the model source ``base``.

    If the folder has errors, ``look`` logs them, ``status`` reports them, and the registry keeps its previous content.
    """

    def __init__(self, engine: Engine, folder: Path, base: JSONObject) -> None:
        self._engine = engine
        self._folder = folder
        self._base = base
        self._seen = ""
        self._error: str | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def status(self) -> JSONObject:
        """The ``folder``, the ``revision`` that is served, ``since`` when, and the current ``error`` (None without)."""
        state = KeyValueStore(self._engine.store).get(STATE_KEY) or {}
        stored = {name: state.get(name) for name in ("revision", "since", "documents", "repairs")}
        return {"folder": str(self._folder), **stored, "error": self._error}

    def load(self) -> None:
        """Read the folder and update the registry. If it raises ``SignalbookError``, the registry is unchanged."""
        snapshot = read_snapshot(self._folder)
        if synchronise(self._engine, snapshot, self._base):
            count = len(snapshot.source.parts)
            _LOG.info("%s: %d documents, revision %s", self._folder, count, snapshot.revision)
            for repair in snapshot.repairs[:_LOGGED_REPAIRS]:
                _LOG.warning("repaired %s", repair)

    def look(self) -> None:
        """Load the folder if it has changed since this process, or another process of the server, last loaded it."""
        mark = folder_mark(self._folder)
        if mark == self._seen:
            return
        # Remember the mark even if loading fails: a folder with errors is read again only after it changes.
        self._seen, self._error = mark, None
        if mark == (KeyValueStore(self._engine.store).get(STATE_KEY) or {}).get("mark"):
            return
        try:
            self.load()
        except SignalbookError as error:
            self._record_failure(str(error))
        except Exception as error:
            _LOG.exception("%s cannot be read", self._folder)
            self._record_failure(f"unexpected {type(error).__name__}")

    def start(self, seconds: float) -> None:
        """Look for changes now, and then every ``seconds`` in a thread. With 0, do not look again."""
        self.look()
        if seconds > 0:
            self._thread = threading.Thread(target=self._follow, args=(seconds,), name="folder-registry", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop looking for changes, and wait for the thread to end."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _follow(self, seconds: float) -> None:
        while not self._stop.wait(seconds):
            self.look()

    def _record_failure(self, error: str) -> None:
        _LOG.error("%s: keeping what was there before: %s", self._folder, error)
        self._error = error
