"""A registry as a large company has it: schemas of four formats with their histories, messages that refer to them.

Names, fields and descriptions are those of GitHub's webhooks, which are real, and some words of commerce; how often
each comes falls as words do in texts. Everything is the same in each run.
"""

from __future__ import annotations

import json
from bisect import bisect
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote

from signalbook.demo import github
from signalbook.engine.engine import Engine
from signalbook.engine.write.commands import Command, Method
from signalbook.engine.write.searchindex import complete_index
from signalbook.settings import Settings
from signalbook.storage import open_store
from signalbook.storage.base import Row
from signalbook.storage.store import Store
from signalbook.values import JSONObject, digest
from signalbook.xid import ROOT, Xid

VERSIONS: Final = 100_000
PACKAGES: Final = Path(__file__).parents[2] / "var" / "demo" / "packages"
DOMAINS: Final = tuple(
    f"{area}.{part}"
    for area in ("billing", "catalog", "checkout", "crm", "fulfilment", "hr", "identity", "inventory", "marketing")
    for part in ("core", "eu", "us", "apac", "partners", "archive", "reporting", "mobile", "legacy", "platform")
)
# fmt: off
ENTITIES: Final = (
    "order", "customer", "invoice", "payment", "product", "shipment", "account", "user", "cart", "refund", "contract",
    "employee", "address", "price", "stock", "warehouse", "campaign", "ticket", "subscription", "voucher", "supplier",
    "return", "delivery", "session", "device", "review", "category", "discount", "ledger", "tax", "budget", "claim",
    "quote", "lead", "region", "currency", "document", "message", "report", "role", "team", "project", "task",
)
VERBS: Final = (
    "created", "updated", "deleted", "approved", "rejected", "shipped", "cancelled", "paid", "expired", "assigned",
)
# fmt: on
FORMATS: Final = ("JsonSchema/draft-07", "Avro/1.11.0", "Protobuf/3", "XSD/1.1")
_SHARES: Final = (60, 25, 10, 5)
_HISTORY: Final = 1.15
_LONGEST_HISTORY: Final = 400
_BATCH: Final = 5_000
_START: Final = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Vocabulary:
    """Fields and what is said of them, the frequent ones first."""

    fields: Sequence[tuple[str, str]]

    @cached_property
    def _weights(self) -> list[float]:
        return list(accumulate(1 / (rank + 8) for rank in range(len(self.fields))))

    def some(self, random: Random, count: int) -> list[tuple[str, str]]:
        """So many different fields."""
        total = self._weights[-1]
        chosen = {bisect(self._weights, random.random() * total): None for _ in range(2 * count)}
        return [self.fields[each] for each in islice(chosen, count)]


def fill(db: str, versions: int = VERSIONS) -> None:
    """Fill the empty database ``db``, or leave one that was filled."""
    webhooks = github.fetch(PACKAGES)
    if webhooks is None:
        raise SystemExit(f"GitHub's definitions are not in {PACKAGES}, and npm cannot fetch them")
    with closing(open_store(db)) as store:
        engine = Engine(store, settings=Settings())
        with store.read() as reading:
            root = reading.entities.get(ROOT)
            if root is None or reading.entities.get(Xid.parse(f"/messagegroups/{github.HTTP_GROUP}")):
                return
        _insert(store, _Estate(vocabulary(webhooks), root.key), versions)
        complete_index(store, anew=True)
        with engine.writing() as session:
            session.execute(Command(method=Method.PATCH, target=ROOT, body=github.webhook_definitions(webhooks)))


def vocabulary(webhooks: github.Webhooks) -> Vocabulary:
    """The words of the webhooks and of commerce, the frequent ones first."""
    counts: dict[str, int] = {}
    said: dict[str, str] = {}

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            for name, inner in node.get("properties", {}).items() if isinstance(node.get("properties"), dict) else ():
                if isinstance(inner, dict):
                    counts[name] = counts.get(name, 0) + 1
                    said.setdefault(name, str(inner.get("description", "")))
            for inner in node.values():
                walk(inner)
        elif isinstance(node, list):
            for inner in node:
                walk(inner)

    walk(webhooks.schema)
    known = sorted(counts, key=lambda name: (-counts[name], name))
    own = [f"{entity}_{part}" for part in ("id", "name", "status", "total", "reference") for entity in ENTITIES]
    names = [name for pair in zip(known, own, strict=False) for name in pair] + known[len(own) :]
    return Vocabulary(
        [(name, " ".join((said.get(name) or f"The {name}.").split())) for name in names if name.isascii()]
    )


def _insert(store: Store, estate: _Estate, versions: int) -> None:
    rows = estate.rows(versions)
    while batch := list(islice(rows, _BATCH)):
        with store.write() as writer:
            writer.entities.put_documents({row.document: content for row, content in batch if row.document})
            assert list(writer.entities.reserve(len(batch))) == [row.key for row, _ in batch]
            writer.entities.insert([row for row, _ in batch])


class _Estate:
    """The rows of all that there is, parents first, each with its document."""

    def __init__(self, vocabulary: Vocabulary, root: int) -> None:
        self._random = Random(7)
        self._vocabulary = vocabulary
        self._root = root
        self._key = root
        self._time = _START

    def rows(self, versions: int) -> Iterator[tuple[Row, bytes]]:
        """Rows with so many Versions: nine in ten are of schemas, the others of messages."""
        each = versions // len(DOMAINS)
        for domain in DOMAINS:
            about = {"description": f"Events of {domain.replace('.', ', ')}", "labels": {"owner": domain}}
            yield self._row(self._root, ROOT / "schemagroups" / domain, attributes=about), b""
            group = self._key
            names: list[str] = []
            left = each * 9 // 10
            while left > 0:
                count = min(left, int(self._random.paretovariate(_HISTORY) * 2), _LONGEST_HISTORY)
                names.append(self._name(len(names)))
                yield from self._schema(group, domain, names[-1], count)
                left -= count
            yield self._row(self._root, ROOT / "messagegroups" / domain, attributes=about), b""
            yield from self._messages(self._key, domain, names, each // 10)
            endpoint = {"usage": ["producer"], "protocol": "KAFKA", "messagegroups": [f"/messagegroups/{domain}"]}
            yield self._row(self._root, ROOT / "endpoints" / domain, attributes=endpoint), b""

    def _name(self, number: int) -> str:
        # The first entities are in more names than the last.
        entity = ENTITIES[min(int(self._random.expovariate(0.12)), len(ENTITIES) - 1)]
        return f"{entity}.{self._random.choice(VERBS)}.{number:04}"

    def _schema(self, group: int, domain: str, name: str, count: int) -> Iterator[tuple[Row, bytes]]:
        xid = ROOT / "schemagroups" / domain / "schemas" / name
        form = self._random.choices(FORMATS, _SHARES)[0]
        fields = self._vocabulary.some(self._random, self._random.randint(8, 20))
        about = {
            "name": name.rpartition(".")[0].replace(".", " ").title(),
            "description": f"Payload: {fields[-1][1]}"[:300],
            "format": form,
            "contenttype": "application/json" if form[0] in "JA" else "text/plain",
        }
        yield self._resource(group, xid, count), b""
        resource = self._key
        for number in range(1, count + 1):
            content = document(form, name, fields).encode()
            yield self._version(resource, xid, number, about, digest(content)), content
            fields = [*fields, *self._vocabulary.some(self._random, 1)][-60:]

    def _messages(self, group: int, domain: str, names: Sequence[str], count: int) -> Iterator[tuple[Row, bytes]]:
        for number in range(count):
            name = names[number % len(names)]
            own = name if number < len(names) else f"{name}.{number}"
            xid = ROOT / "messagegroups" / domain / "messages" / own
            about: JSONObject = {
                "name": f"{name.partition('.')[0].title()} {name.split('.')[1]}",
                "description": self._vocabulary.some(self._random, 1)[0][1][:300],
                "envelope": "CloudEvents/1.0",
                "envelopemetadata": {"type": {"value": f"com.example.{domain}.{name}"}, "source": {"value": "/{shop}"}},
                "protocol": "KAFKA",
                "protocoloptions": {"topic": domain},
                "dataschemauri": f"/schemagroups/{quote(domain)}/schemas/{quote(name)}",
                "dataschemaformat": FORMATS[0],
            }
            yield self._resource(group, xid, 1), b""
            yield self._version(self._key, xid, 1, about, None), b""

    def _resource(self, group: int, xid: Xid, count: int) -> Row:
        return self._row(group, xid, defaultversionid=str(count), settled="manual", versioncounter=count)

    def _version(self, resource: int, xid: Xid, number: int, about: JSONObject, document: str | None) -> Row:
        self._time += timedelta(minutes=20)
        return self._row(
            resource,
            xid / "versions" / str(number),
            attributes=about,
            ancestorid=str(max(1, number - 1)),
            rank=self._time.isoformat(timespec="microseconds")[:26],
            document=document,
        )

    def _row(self, parent: int, xid: Xid, **more: Any) -> Row:
        self._key += 1
        return Row(key=self._key, parent=parent, xid=xid, epoch=1, createdat=self._time, modifiedat=self._time, **more)


def document(form: str, name: str, fields: Sequence[tuple[str, str]]) -> str:
    """A schema with these fields."""
    title = "".join(part.title() for part in name.split("."))
    unique = dict(fields)
    if form.startswith("JsonSchema"):
        properties = {each: {"type": _kind(each, "integer", "string"), "description": said} for each, said in fields}
        required = list(unique)[:3]
        return json.dumps(
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "title": title,
                "type": "object",
                "required": required,
                "properties": properties,
            }
        )
    if form.startswith("Avro"):
        members = [
            {"name": _plain(each), "type": _kind(each, "long", "string"), "doc": unique[each]} for each in unique
        ]
        return json.dumps({"type": "record", "name": title, "namespace": "com.example", "fields": members})
    if form.startswith("Protobuf"):
        lines = [
            f"  // {said}\n  {_kind(each, 'int64', 'string')} {_plain(each)} = {number};"
            for number, (each, said) in enumerate(unique.items(), 1)
        ]
        return "\n".join(['syntax = "proto3";', "package example;", f"message {title} {{", *lines, "}"])
    elements = "".join(f'<element name="{_plain(each)}" type="{_kind(each, "long", "string")}"/>' for each in unique)
    return (
        f'<schema xmlns="http://www.w3.org/2001/XMLSchema"><element name="{title}"><complexType><sequence>{elements}'
        "</sequence></complexType></element></schema>"
    )


def _kind(name: str, number: str, text: str) -> str:
    return number if name.endswith(("id", "total", "count", "number")) else text


def _plain(name: str) -> str:
    plain = "".join(each if each.isalnum() else "_" for each in name)
    return plain if not plain[0].isdigit() else f"n{plain}"
