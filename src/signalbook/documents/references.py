"""Read a document of another standard: follow its references, check the types of its parts, and report losses.

Places are JSON Pointers in the document (``/channels/placed``). A place in another file begins with the path of that
file, relative to the document: ``messages.yaml#/placed``, or ``placed.yaml#`` for the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any, Final
from urllib.parse import unquote

from signalbook.documents.errors import DocumentError, Repair
from signalbook.documents.localfiles import LocalFiles, is_file_reference
from signalbook.documents.reading import parse_document
from signalbook.values import JSON, JSONObject, step_into
from signalbook.xid import ID

_MAX_HOPS: Final = 64
_MAX_COPIED: Final = 1_000_000
"""The largest number of copied values. Without a limit, a small document could cause very many copies."""
# Objects in a JSON Schema whose member names are chosen by the authors of schemas.
SCHEMA_MAPS: Final = frozenset(
    {
        *("properties", "patternProperties", "definitions", "$defs"),
        *("dependencies", "dependentRequired", "dependentSchemas"),
    }
)
_NOT_IN_AN_ID: Final = re.compile(r"[^A-Za-z0-9._~:@-]+")


@dataclass(slots=True)
class DocumentReader:
    """Reads ``document``, follows references in it and in ``files``, and collects losses in ``repairs``.

    ``family`` is the prefix of the rules in docs/documents.md under which losses are reported. If ``files`` is None, a
    reference to another document is a loss.
    """

    document: JSONObject
    family: str
    files: LocalFiles | None = None
    repairs: list[Repair] = field(default_factory=list)
    _parsed: dict[str, JSON] = field(default_factory=dict)
    _copied: int = 0
    _noted: dict[tuple[int, str], list[str]] = field(default_factory=dict)

    def report(self, path: str, message: str, number: int) -> None:
        """Report a repair or loss at ``path`` under the rule with this ``number``."""
        self.repairs.append(Repair(message=message, path=path, rule=f"{self.family}-{number}"))

    def leave_out(self, body: JSONObject, used: frozenset[str], path: str) -> None:
        """Report the members of ``body`` that are not in ``used``, because they cannot be converted."""
        names = sorted(name for name in body if name not in used)
        if names:
            self.report(path, f"left out {', '.join(names)}: definitions have no such thing", 2)

    def note(self, path: str, message: str, number: int) -> None:
        """Note a loss that many parts may have. ``report_noted`` reports it once, with the first place and the number
        of places."""
        self._noted.setdefault((number, message), []).append(path)

    def note_left_out(self, body: JSONObject, used: frozenset[str], path: str) -> None:
        """Note the members of ``body`` that are not in ``used``. Equal lists are reported once (``report_noted``)."""
        names = sorted(name for name in body if name not in used)
        if names:
            self.note(path, f"left out {', '.join(names)}", 2)

    def report_noted(self) -> None:
        """Report all losses that were noted with ``note`` and ``note_left_out``."""
        for (number, message), places in self._noted.items():
            count_text = f" (and of {len(places) - 1} more)" if len(places) > 1 else ""
            self.report(places[0], f"{message}{count_text}", number)
        self._noted.clear()

    def count_copied(self, value: JSON) -> None:
        """Count the values in ``value``, which is copied. Raises ``DocumentError`` if too many values are copied."""
        pending = [value]
        while pending:
            self._copied += 1
            part = pending.pop()
            if isinstance(part, dict | list):
                pending += part.values() if isinstance(part, dict) else part
            if self._copied > _MAX_COPIED:
                most = f"more than {_MAX_COPIED} values"
                raise DocumentError(f"its shared parts, put where they are used, make {most}: split it")

    def follow(self, value: JSON, path: str) -> tuple[JSON, str] | None:
        """Follow the references of ``value`` at ``path``, and return the final value with its place.

        Return None if a reference leads to a document that cannot be read; this loss is reported. Raises
        ``DocumentError`` for references in a circle, or to a missing place.
        """
        seen = {path}
        while isinstance(value, dict) and isinstance(value.get("$ref"), str):
            place = self.locate(value["$ref"], path)
            if place is None:
                self.report(path, self.explain_loss(value["$ref"]), 1)
                return None
            path, value = place, self.value_at(place, path)
            if path in seen or len(seen) > _MAX_HOPS:
                raise DocumentError(f"{path}: its references lead in a circle")
            seen.add(path)
        return value, path

    def locate(self, reference: str, path: str) -> str | None:
        """Return the place that ``reference`` at ``path`` leads to, or None if it is not in a file that can be read.

        Raises ``DocumentError`` for a fragment that is not a JSON Pointer.
        """
        name, _, fragment = reference.partition("#")
        if name and not self.is_file(name):
            return None
        pointer = unquote(fragment)
        if pointer and not pointer.startswith("/"):
            raise DocumentError(f"{path}: there is no {reference} in the document")
        file = normpath(name) if name else ""
        is_own = self.files is not None and unquote(file) == self.files.document.name
        return place_in("" if is_own else file, pointer)

    def is_file(self, name: str) -> bool:
        """Return True if ``name`` refers to an existing file that may be read."""
        return self.files is not None and is_file_reference(name) and self.files.exists(unquote(name))

    def explain_loss(self, reference: str) -> str:
        """Return a message that explains why ``reference`` was not followed."""
        name = reference.partition("#")[0]
        if self.files is None or not is_file_reference(name):
            return f"{reference} is in another document, and was not fetched"
        return f"{reference} is in a file that is not there, or not in {self.files.root}"

    def value_at(self, place: str, path: str) -> JSON:
        """Return the value at ``place``, which a reference at ``path`` names. Raises ``DocumentError`` if missing."""
        file, pointer = split_place(place)
        value = self._parse(file, path) if file else self.document
        for part in pointer.split("/")[1:]:
            try:
                value = step_into(value, part)
            except LookupError:
                where = place if file else f"#{place} in the document"
                raise DocumentError(f"{path}: there is no {where}") from None
        return value

    def _parse(self, file: str, path: str) -> JSON:
        """Return the content of ``file``, with its references made relative to the document.

        ``path`` is the place of the reference, for errors. Raises ``DocumentError``.
        """
        if file not in self._parsed:
            assert self.files is not None
            _, data = self.files.read(unquote(file), path)
            value, _ = parse_document(data, name=file)
            self._parsed[file] = _rebase(value, file, {})
        return self._parsed[file]

    def object(self, value: JSON, path: str) -> JSONObject:
        """Return ``value`` as an object; None becomes an empty object. Raises ``DocumentError`` for other values."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise DocumentError(f"{path}: must be an object")
        return value

    def entries(self, parent: JSONObject, name: str, path: str) -> Iterator[tuple[str, JSON, str]]:
        """Yield the members of a map, which may be in another file: key, value as written, and place."""
        followed = self.follow(parent.get(name), below(path, name))
        if followed is not None:
            for key, value in self.object(*followed).items():
                yield key, value, below(followed[1], key)

    def members(self, parent: JSONObject, name: str, path: str) -> Iterator[tuple[str, JSONObject, str]]:
        """Yield the objects in a map, with references followed: key, object, and place."""
        for key, value, place in self.entries(parent, name, path):
            if not key.startswith("x-"):
                followed = self.follow(value, place)
                if followed is not None:
                    yield key, self.object(*followed), followed[1]

    def items(self, parent: JSONObject, name: str, path: str) -> Iterator[tuple[JSON, str]]:
        """Yield the items of the list ``name`` in ``parent``, each with its place.

        A missing list is empty. Raises ``DocumentError`` if the member is not a list.
        """
        value = parent.get(name)
        if value is not None and not isinstance(value, list):
            raise DocumentError(f"{below(path, name)}: must be a list")
        for position, item in enumerate(value or ()):
            yield item, below(path, name, str(position))

    def text(self, body: Mapping[str, Any], name: str, path: str) -> str:
        """Return the text of the member ``name``, or ``""`` if missing. Raises ``DocumentError`` if it is not text."""
        value = body.get(name)
        if value is not None and not isinstance(value, str):
            raise DocumentError(f"{below(path, name)}: must be a string")
        return value or ""

    def describe(self, body: JSONObject, path: str, *, name: str) -> JSONObject:
        """Return the attributes ``name``, ``description`` and ``documentation`` for an entity made of ``body``.

        ``name`` is the member of ``body`` that has the name. Empty attributes are left out.
        """
        texts = {
            "name": self.text(body, name, path),
            "description": self.text(body, "description", path) or self.text(body, "summary", path),
        }
        documentation = body.get("externalDocs")
        url = documentation.get("url") if isinstance(documentation, dict) else None
        if isinstance(url, str) and url.startswith(("http://", "https://")):
            texts["documentation"] = url
        return {name: value for name, value in texts.items() if value}


@dataclass(slots=True)
class FreeIds:
    """Assigns unique ids. ``taken`` has the ids in use, in lower case."""

    taken: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)

    def take_id(self, requested_id: str, fallback: str) -> str:
        """Return an unused id like ``requested_id``, or like ``fallback`` if that yields no id.

        A number is added if the id is in use, also if it differs only in case.
        """
        plain = id_of(requested_id, fallback)
        name = plain
        while name.lower() in self.taken:
            self.counts[plain.lower()] = count = self.counts.get(plain.lower(), 1) + 1
            name = f"{plain[:120]}-{count}"
        self.taken.add(name.lower())
        return name


def id_of(text: str, fallback: str) -> str:
    """Return ``text`` with dashes in place of characters that ids must not have, or ``fallback`` if nothing is left."""
    candidate = _NOT_IN_AN_ID.sub("-", text).strip("-.~:@")[:128]
    return candidate if ID.fullmatch(candidate) else fallback


def add_labels(document: JSONObject, repairs: tuple[Repair, ...], source: str) -> JSONObject:
    """Add labels with the ``source`` and the rules of ``repairs`` to the groups of ``document``, and return it.

    Labels are added to message groups or, if there are none, to schema groups (L-38).
    """
    rules = " ".join(sorted({repair.rule for repair in repairs}))
    groups = document.get("messagegroups") or document.get("schemagroups") or {}
    for group in groups.values() if rules else ():
        group["labels"] = {
            **group.get("labels", {}), **({"import.source": source} if source else {}), "import.repairs": rules
        }  # fmt: skip
    return document


def below(path: str, *names: str) -> str:
    """Return the JSON Pointer ``path`` extended by ``names``, which are escaped."""
    return "".join([path, *("/" + name.replace("~", "~0").replace("/", "~1") for name in names)])


def place_in(file: str, pointer: str) -> str:
    """Return the place of a JSON Pointer in a file; ``file`` is empty for the document itself."""
    return f"{file}#{pointer}" if file else pointer


def split_place(place: str) -> tuple[str, str]:
    """Return the file of a place, empty for the document itself, and the JSON Pointer in it."""
    if place[:1] in ("", "/"):
        return "", place
    file, _, pointer = place.partition("#")
    return file, pointer


def name_of(place: str) -> str:
    """Return the last name of a place; for a whole file, its name without the suffix."""
    file, pointer = split_place(place)
    return last_name(pointer) if pointer else PurePosixPath(unquote(file)).stem


def _rebase(value: JSON, file: str, copies: dict[tuple[int, bool], JSON], *, is_map: bool = False) -> JSON:
    """Return a value of ``file`` with its references made relative to the document that refers to the file.

    ``copies`` caches results by identity and ``is_map``, so that values shared by YAML aliases are copied only once.
    ``is_map`` is True if the names of the members of ``value`` are chosen by the author of a schema.
    """
    key = id(value), is_map
    if key in copies:
        return copies[key]
    if isinstance(value, list):
        copies[key] = [_rebase(item, file, copies) for item in value]
        return copies[key]
    if not isinstance(value, dict):
        return value
    rebased: JSONObject = {}
    copies[key] = rebased
    for name, member in value.items():
        if name == "$ref" and isinstance(member, str):
            target, mark, fragment = member.partition("#")
            if not target:
                target = file
            elif is_file_reference(target):
                target = normpath(PurePosixPath(file).parent / target)
            rebased[name] = f"{target}{mark}{fragment}"
        elif name in ("const", "enum") and not is_map:
            rebased[name] = member
        else:
            rebased[name] = _rebase(member, file, copies, is_map=name in SCHEMA_MAPS and not is_map)
    return rebased


def find_other_files(value: JSON, file: str) -> set[str]:
    """Return the files, or URLs, other than ``file`` that a value of ``file`` refers to."""
    targets: set[str] = set()
    pending, visited = [value], set[int]()
    while pending:
        part = pending.pop()
        if id(part) in visited:  # shared by YAML aliases, or a small value
            continue
        visited.add(id(part))
        if isinstance(part, dict):
            reference = part.get("$ref")
            targets |= {reference.partition("#")[0]} if isinstance(reference, str) else set()
        pending += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return targets - {file, ""}


def last_name(pointer: str) -> str:
    """Return the last name in a JSON Pointer, without escapes."""
    return pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
