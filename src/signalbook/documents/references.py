"""A document of another standard as it is read: references followed, types of its parts held to, losses noted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from signalbook.documents.errors import DocumentError, Repair
from signalbook.values import JSON, JSONObject
from signalbook.xid import ID

_MAX_HOPS: Final = 64
_MAX_COPIED: Final = 1_000_000
"""Values that are copied, for shared schemas and the like: a small document could ask for very many."""
_NOT_IN_AN_ID: Final = re.compile(r"[^A-Za-z0-9._~:@-]+")


@dataclass(slots=True)
class DocumentReader:
    """Follows references in ``document``, and keeps what is lost on the way in ``repairs``.

    ``family`` begins the rules in docs/documents.md that its losses are listed by.
    """

    document: JSONObject
    family: str
    repairs: list[Repair] = field(default_factory=list)
    _copied: int = 0
    _noted: dict[tuple[int, str], list[str]] = field(default_factory=dict)

    def report(self, path: str, message: str, number: int) -> None:
        """Note a repair or loss by the rule of this number."""
        self.repairs.append(Repair(message=message, path=path, rule=f"{self.family}-{number}"))

    def leave_out(self, body: JSONObject, known: frozenset[str], path: str) -> None:
        """Note the members that nothing is made of."""
        names = sorted(name for name in body if name not in known)
        if names:
            self.report(path, f"left out {', '.join(names)}: definitions have no such thing", 2)

    def note(self, path: str, message: str, number: int) -> None:
        """Note what many parts have in common: once, with the first place and their number (``report_noted``)."""
        self._noted.setdefault((number, message), []).append(path)

    def note_left_out(self, body: JSONObject, known: frozenset[str], path: str) -> None:
        """Note the members that nothing is made of, once for all parts that have the same."""
        names = sorted(name for name in body if name not in known)
        if names:
            self.note(path, f"left out {', '.join(names)}", 2)

    def report_noted(self) -> None:
        """Report all that was noted."""
        for (number, message), places in self._noted.items():
            others = f" (and of {len(places) - 1} more)" if len(places) > 1 else ""
            self.report(places[0], f"{message}{others}", number)
        self._noted.clear()

    def spend(self, value: JSON) -> None:
        """Count what is copied. Raises ``DocumentError`` beyond the limit."""
        pending = [value]
        while pending:
            self._copied += 1
            each = pending.pop()
            if isinstance(each, dict | list):
                pending += each.values() if isinstance(each, dict) else each
        if self._copied > _MAX_COPIED:
            most = f"more than {_MAX_COPIED} values"
            raise DocumentError(f"its shared parts, put where they are used, make {most}: split it")

    def follow(self, value: JSON, path: str) -> tuple[JSON, str] | None:
        """What a value is once references are followed, and where that stands; None if it is in another document.

        Raises ``DocumentError`` for references in a circle, or to nothing.
        """
        seen = {path}
        while isinstance(value, dict) and isinstance(value.get("$ref"), str):
            reference = value["$ref"]
            if not reference.startswith("#"):
                self.report(path, f"{reference} is in another document, and was not fetched", 1)
                return None
            path, value = self.at(reference, path)
            if path in seen or len(seen) > _MAX_HOPS:
                raise DocumentError(f"{path}: its references lead in a circle")
            seen.add(path)
        return value, path

    def at(self, reference: str, path: str) -> tuple[str, JSON]:
        """The place that a reference within the document names, and what is there. Raises ``DocumentError``."""
        pointer = unquote(reference[1:])
        value: JSON = self.document
        for part in pointer.split("/")[1:] if pointer.startswith("/") else [pointer] if pointer else ():
            name = last_name(part)
            if isinstance(value, dict) and name in value and pointer.startswith("/"):
                value = value[name]
            elif isinstance(value, list) and name.isdecimal() and len(name) < 9 and int(name) < len(value):
                value = value[int(name)]
            else:
                raise DocumentError(f"{path}: there is no {reference} in the document")
        return pointer, value

    def object(self, value: JSON, path: str) -> JSONObject:
        """The object that has to be here; nothing at all is an empty one. Raises ``DocumentError``."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise DocumentError(f"{path}: must be an object")
        return value

    def members(self, parent: JSONObject, name: str, path: str) -> Iterator[tuple[str, JSONObject, str]]:
        """The objects in a map, by name, references followed; with where each stands."""
        for key, value in self.object(parent.get(name), below(path, name)).items():
            if not key.startswith("x-"):
                found = self.follow(value, below(path, name, key))
                if found is not None:
                    yield key, self.object(*found), found[1]

    def items(self, parent: JSONObject, name: str, path: str) -> Iterator[tuple[JSON, str]]:
        """The values in a list, with where each stands. Raises ``DocumentError`` if it is none."""
        value = parent.get(name)
        if value is not None and not isinstance(value, list):
            raise DocumentError(f"{below(path, name)}: must be a list")
        for position, item in enumerate(value or ()):
            yield item, below(path, name, str(position))

    def text(self, body: Mapping[str, Any], name: str, path: str) -> str:
        """A member that is text, empty if it is not there. Raises ``DocumentError`` if it is something else."""
        value = body.get(name)
        if value is not None and not isinstance(value, str):
            raise DocumentError(f"{below(path, name)}: must be a string")
        return value or ""

    def described(self, body: JSONObject, path: str, *, name: str) -> JSONObject:
        """``name``, ``description`` and ``documentation``, of the members ``name``, ``description`` and others."""
        said = {
            "name": self.text(body, name, path),
            "description": self.text(body, "description", path) or self.text(body, "summary", path),
        }
        documentation = body.get("externalDocs")
        url = documentation.get("url") if isinstance(documentation, dict) else None
        if isinstance(url, str) and url.startswith(("http://", "https://")):
            said["documentation"] = url
        return {name: value for name, value in said.items() if value}


@dataclass(slots=True)
class FreeIds:
    """Ids that are not taken yet."""

    taken: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)

    def free(self, wanted: str, fallback: str) -> str:
        """An id like ``wanted``; two that differ in case alone are one."""
        plain = id_of(wanted, fallback)
        name = plain
        while name.lower() in self.taken:
            self.counts[plain.lower()] = count = self.counts.get(plain.lower(), 1) + 1
            name = f"{plain[:120]}-{count}"
        self.taken.add(name.lower())
        return name


def id_of(text: str, fallback: str) -> str:
    """An id like ``text``, with a dash for what no id has; ``fallback`` if nothing is left."""
    found = _NOT_IN_AN_ID.sub("-", text).strip("-.~:@")[:128]
    return found if ID.fullmatch(found) else fallback


def labelled(document: JSONObject, repairs: tuple[Repair, ...], source: str) -> JSONObject:
    """``document`` with the labels of what was repaired in its groups of messages, or of schemas without any (L-38)."""
    rules = " ".join(sorted({repair.rule for repair in repairs}))
    groups = document.get("messagegroups") or document.get("schemagroups") or {}
    for group in groups.values() if rules else ():
        group["labels"] = {
            **group.get("labels", {}), **({"import.source": source} if source else {}), "import.repairs": rules
        }  # fmt: skip
    return document


def below(path: str, *names: str) -> str:
    """The JSON Pointer of what is below ``path``."""
    return "".join([path, *("/" + name.replace("~", "~0").replace("/", "~1") for name in names)])


def last_name(pointer: str) -> str:
    """The last name in a JSON Pointer."""
    return pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
