"""Requests for every path in a server's own OpenAPI document, of all that is in a registry and with every flag."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

from starlette.applications import Starlette

Request = tuple[str, str]
SCHEMAS = "/compat/schemaregistry/v0.2"
CATALOGS = ("/compat/messagecatalog/v0.1", "/compat/messagecatalog/v0")
_NAMES = re.compile(r"{(\w+)}")
_READS = ("get", "head", "options")


def walk(document: dict[str, Any], xids: list[str], random: Random, most: int) -> Iterator[Request]:
    """Yield a request for each path that is read, for ``most`` of the ``xids`` that fit it, and for one of them
    with each of the flags.
    """
    marks = [xid.rpartition("/")[2] for xid in xids]
    for path, item in document["paths"].items():
        # What these answer has the number of requests so far in it, and the time.
        if path in ("/metrics", "/health/ready") or path.startswith("/check"):
            continue
        targets = sorted(_targets(path, xids)) or [_NAMES.sub("none", path)]
        for method in (name for name in _READS if name in item):
            for target in random.sample(targets, min(most if method == "get" else 2, len(targets))):
                yield method.upper(), target
            flags = _flags(document, item, item[method], random.sample(marks, 2)) if method == "get" else []
            if path == "/events":  # as do the events that a page may have
                flags = [flag for flag in flags if flag[0] != "limit"]
            for name, values in flags:
                for value in values:
                    yield "GET", f"{random.choice(targets)}?{urlencode({name: value})}"
            if flags:
                some = {
                    name: random.choice(values) for name, values in random.sample(flags, random.randint(1, len(flags)))
                }
                yield "GET", f"{random.choice(targets)}?{urlencode(some)}"


def _targets(path: str, xids: Iterable[str]) -> set[str]:
    """The paths that a template stands for."""
    targets = set()
    for xid in xids:
        parts = xid.strip("/").split("/")
        names = dict(zip(("groupid", "resourceid"), parts[1::2], strict=False))
        names |= {"group": names["groupid"], "name": names.get("resourceid", "")}
        required = set(_NAMES.findall(path)) - {"versionid", "version"}
        if not required or not all(names.get(name) for name in required) or not _is_about(path, parts):
            continue
        targets |= {_filled(path, names, version) for version in ("1", "2")}
    return targets


def _filled(path: str, names: dict[str, str], version: str) -> str:
    return _NAMES.sub(lambda match: names.get(match[1], version), path)


def _is_about(path: str, parts: list[str]) -> bool:
    """Return True if a template addresses the entity with these path segments, or something inside it."""
    deep = "{resourceid}" in path or "{name}" in path
    if path.startswith(SCHEMAS):
        return parts[0] == "schemagroups" and deep == (len(parts) == 4)
    if path.startswith("/compat/messagecatalog"):
        return parts[0] == "messagegroups" and deep == (len(parts) == 4)
    if path.startswith("/pipelines"):
        return True
    there = path.removesuffix("$details").strip("/").split("/")
    return there[0] == parts[0] and deep == (len(parts) == 4) and (not deep or there[2].startswith(parts[2]))


def _flags(
    document: dict[str, Any], item: dict[str, Any], operation: dict[str, Any], marks: list[str]
) -> list[tuple[str, list[str]]]:
    """The parameters in the query, each with values to try."""
    values = {
        "filter": [f"name=*{marks[0]}*", f"labels.{marks[1]}={marks[1]}", "name!=null,epoch>=1"],
        "inline": ["*", "schemas.versions", "messages", "schemagroups,endpoints"],
        "sort": ["name", "name=desc", "labels.x"],
        "limit": ["1", "2"],
        "specversion": ["1.0-rc4", "0"],
        "source": [SCHEMAS, "/"],
        "after": ["0", "99999"],  # positions count what is hidden, too
        "uri": [f"urn:e:{mark}" for mark in marks],
        "xid": [f"/schemagroups/{marks[0]}"],
        "who": [f"subject:{marks[0]}"],
        "cursor": [marks[0]],
    }
    flags = []
    for parameter in (*item.get("parameters", ()), *operation.get("parameters", ())):
        definition = (
            parameter
            if "name" in parameter
            else document["components"]["parameters"][parameter["$ref"].rpartition("/")[2]]
        )
        if definition["in"] == "query":
            flags.append((definition["name"], values.get(definition["name"], [""])))
    return flags


def lookups(xid: str) -> Iterator[str]:
    """URIs by which the drafts find a Version."""
    last_id = xid.rpartition("/")[2]
    yield from (quote(f"http://r.example{SCHEMAS}{xid}/versions/2", safe=""), quote(f"urn:e:{last_id}", safe=""))
    yield quote(f"http://r.example{xid}/versions/1", safe="")


async def streamed(app: Starlette, headers: dict[str, str], query: str) -> str:
    """Return what a stream of events sends at once: everything before its first sign of life."""
    sent: list[str] = []
    over = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message.get("body") == b":\n\n":
            over.set()
        sent.append(f"{message.get('status', '')}{message.get('body', b'').decode()}")

    header_values = {"accept": "text/event-stream", "host": "r.example", **headers}
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/events", "scheme": "http"}
    scope |= {"http_version": "1.1", "client": ("127.0.0.1", 1), "query_string": query.encode()}
    scope["headers"] = [(name.lower().encode(), value.encode()) for name, value in header_values.items()]
    await app(scope, receive, send)
    return "".join(sent)
