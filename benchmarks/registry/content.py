"""What is written: schemas, a catalogue, and stores filled past the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any, Final

from signalbook.engine.engine import Engine
from signalbook.settings import Settings
from signalbook.storage import open_store
from signalbook.storage.base import Row
from signalbook.storage.store import WriteTransaction
from signalbook.values import digest, now
from signalbook.xid import ROOT, Xid

GROUP: Final = "/schemagroups/bench"
FORMAT: Final = "JsonSchema/draft-07"
VERSIONS_EACH: Final = 10
_BATCH: Final = 10_000
_SCHEMAS: Final = 590
_WITH_TWO: Final = 114


def schema(number: int) -> dict[str, Any]:
    """A JSON Schema of about 400 bytes."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"Record {number}",
        "type": "object",
        "required": ["id", "name"],
        "properties": {
            "id": {"type": "integer", "minimum": 0},
            "name": {"type": "string", "maxLength": 200},
            "tags": {"type": "array", "items": {"type": "string"}},
            "address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}},
        },
    }


def catalogue() -> dict[str, Any]:
    """A document of the size of schemastore.org's listing: 590 schemas, 704 versions, all of them links."""
    schemas = {
        f"schema-{number}": {"versions": {str(n + 1): _link(number, n) for n in range(2 if number < _WITH_TWO else 1)}}
        for number in range(_SCHEMAS)
    }
    return {"schemagroups": {"store": {"description": "Schemas listed elsewhere", "schemas": schemas}}}


def _link(number: int, version: int) -> dict[str, Any]:
    return {
        "name": f"Schema {number}",
        "description": "What a configuration file of some tool looks like, in a sentence of usual length.",
        "format": FORMAT,
        "schemaurl": f"https://schemas.example/catalogue/{number}/{version + 1}.json",
        "labels": {"file": f"tool-{number}.json"},
    }


def history(versions: int) -> dict[str, Any]:
    """One schema with many Versions, each with its document."""
    made = {str(n): {"format": FORMAT, "contenttype": "application/json", "schema": schema(n)} for n in range(versions)}
    return {"schemagroups": {"history": {"schemas": {"long": {"versions": made}}}}}


def put_script(path: str, suffix: str = "") -> str:
    """For wrk: PUT of another schema at ``path`` followed by a number and ``suffix``, each time."""
    before, after = json.dumps(schema(0)).split("Record 0")
    return f"""
local n = 0
local headers = {{["Content-Type"]="application/json", ["xRegistry-format"]="{FORMAT}"}}
request = function()
  n = n + 1
  return wrk.format("PUT", "{path}"..n.."{suffix}", headers, [==[{before}Record ]==]..n..[==[{after}]==])
end
"""


def fill(db: str, versions: int, *, each: int = VERSIONS_EACH) -> None:
    """A store with so many Versions, ``each`` of them in one schema, as the engine would have left them."""
    with closing(open_store(db)) as store:
        Engine(store, settings=Settings())
        with store.write() as writer:
            root = writer.entities.get(ROOT)
            (key,) = writer.entities.reserve(1)
            group = _row(key, root.key if root else 0, Xid.parse(GROUP))
            writer.entities.insert([group])
        rows = _rows(group, versions, each)
        while batch := list(islice(rows, _BATCH)):
            with store.write() as writer:
                _insert(writer, batch)


def _insert(writer: WriteTransaction, rows: list[Row]) -> None:
    writer.entities.put_documents({name: content for number in range(100) for name, content in [_document(number)]})
    assert list(writer.entities.reserve(len(rows))) == [row.key for row in rows]
    writer.entities.insert(rows)


def _rows(group: Row, versions: int, each: int) -> Iterator[Row]:
    key = group.key
    for number in range(versions // each):
        xid = group.xid / "schemas" / f"s{number:06}"
        key += 1
        parent = key
        yield _row(key, group.key, xid, defaultversionid=_version(each - 1), settled="manual")
        for n in range(each):
            key += 1
            yield _row(
                key,
                parent,
                xid / "versions" / _version(n),
                attributes={"format": FORMAT, "contenttype": "application/json", "formatvalidated": True},
                ancestorid=_version(max(0, n - 1)),
                rank=f"{now().isoformat(timespec='microseconds')[:26]}",
                document=_document(n % 100)[0],
            )


def _row(key: int, parent: int, xid: Xid, **more: Any) -> Row:
    return Row(key=key, parent=parent, xid=xid, epoch=1, createdat=(stamp := now()), modifiedat=stamp, **more)


def _version(number: int) -> str:
    return f"v{number:06}"


def _document(number: int) -> tuple[str, bytes]:
    content = json.dumps(schema(number)).encode()
    return digest(content), content
