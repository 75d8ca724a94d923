"""The contract of a generator, which generators there are, and what they are given.

Generators are everything in the entry-point group ``signalbook.generators``, the built-in ones too. The name of an
entry point is the target on the command line, its value an object that keeps to ``Generator``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import EntryPoint
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final
from urllib.parse import quote

from signalbook import plugins
from signalbook.errors import SignalbookError
from signalbook.messages import CompiledDefinition, Policy, SchemaDocument
from signalbook.pipeline.job.documents import is_foreign, read_documents
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.values import Finding, JSONObject, digest, dump_json, fingerprint
from signalbook.xid import group_of

GROUP: Final = "signalbook.generators"
# What a registry notes of an entity, and what says where it was read from: the same definition may differ in them.
_VOLATILE: Final = frozenset(
    {
        *("ancestor", "createdat", "epoch", "isdefault", "meta", "metaurl", "modifiedat", "self", "shortself"),
        *("versions", "versionscount", "versionsurl"),
    }
)


class GeneratorError(SignalbookError):
    """The error for an unknown target, a wrong option or a missing package."""


class Inexpressible(SignalbookError):
    """A definition that a target has no form for; the message says why. The others are generated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedFile:
    """A file: its path below the output folder, its bytes, and the xids of its definitions."""

    path: str
    content: bytes
    xids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """The result of a generator. ``left_out`` are reasons for definitions that it cannot express, by xid."""

    files: tuple[GeneratedFile, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class GeneratorInput:
    """The definitions that files are made of, and the options.

    ``messages`` are the usable ones by xid, in order; ``unusable`` says why the others are none, ``incomplete`` which
    of the usable ones lack a base. ``documents`` are those of the registry, with its groups and endpoints. ``progress``
    takes words for people.
    """

    target: str
    snapshot: Snapshot
    messages: Mapping[str, CompiledDefinition]
    unusable: Mapping[str, str]
    incomplete: Mapping[str, str]
    documents: tuple[JSONObject, ...]
    options: Mapping[str, str]
    progress: Callable[[str], None]

    def option(self, name: str, choices: Sequence[str] = ()) -> str:
        """An option's value, the first of ``choices`` if it was not given. Raises ``GeneratorError`` for others."""
        value = self.options.get(name) or (choices[0] if choices else "")
        if choices and value not in choices:
            raise GeneratorError(f"{self.target}: {name} is one of {', '.join(choices)}, not {value!r}")
        return value

    @cached_property
    def by_group(self) -> Mapping[str, tuple[CompiledDefinition, ...]]:
        """The messages of each group, both in the order of their xids."""
        return grouped(self.messages.values())

    def entity(self, xid: str) -> JSONObject:
        """Return a group or an endpoint as the registry has it; empty if it has none."""
        _, kind, name = xid.split("/")[:3]
        for document in self.documents:
            entities = document.get(kind)
            entity = entities.get(name) if isinstance(entities, dict) else None
            if isinstance(entity, dict):
                return entity
        return {}

    @cached_property
    def endpoints(self) -> Mapping[str, JSONObject]:
        """The endpoints of the registry by xid, in order."""
        endpoints_by_xid: dict[str, JSONObject] = {}
        for document in self.documents:
            for name, entity in (document.get("endpoints") or {}).items():
                if isinstance(entity, dict):
                    endpoints_by_xid.setdefault(f"/endpoints/{name}", entity)
        return dict(sorted(endpoints_by_xid.items()))

    def document(self, definition: CompiledDefinition) -> SchemaDocument | None:
        """Return the schema document of a usable definition, None if it has no schema."""
        use = definition.schema_use
        if use.schema is None:
            return None
        inline = definition.definition.get("dataschema")
        if use.resource or inline is None:
            return self.snapshot.find_schema(use.document)
        content = inline.encode() if isinstance(inline, str) else dump_json(inline)
        return SchemaDocument(content=content, format=use.schema.format, xid=use.document)

    @cached_property
    def fingerprints(self) -> Mapping[str, str]:
        """SHA-256 of each message and its schema, by xid; what a registry notes of them (times, epochs) is no part."""
        return {xid: _compute_fingerprint(definition) for xid, definition in self.messages.items()}

    @property
    def notice(self) -> str:
        """The first sentence of every file, without a full stop."""
        return f"Generated by signalbook generate {self.target}. Changes by hand are not kept"

    def header(self, xids: Iterable[str]) -> Iterator[str]:
        """Yield the lines at the top of a file that is made of these definitions.

        Ids are percent-encoded as in a URI, so that no line ends a comment or is read as a template in any language.
        """
        sorted_xids = sorted(xids)
        yield f"{self.notice}: change the definitions."
        yield f"Fingerprint: {digest(''.join(self.fingerprints[xid] for xid in sorted_xids).encode())}"
        yield from (f"Definition: {quote(xid, '/:@', errors='surrogatepass')}" for xid in sorted_xids)


def runtime_files(package: str, suffix: str) -> Iterator[tuple[str, str]]:
    """The files that a target writes whatever the definitions, from the folder ``runtime`` of its package.

    Each by its path in that folder, with its text.
    """
    return _read_texts(files(package) / "runtime", suffix)


def _read_texts(folder: Traversable, suffix: str, path: str = "") -> Iterator[tuple[str, str]]:
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.is_dir():
            yield from _read_texts(file, suffix, f"{path}{file.name}/")
        elif file.name.endswith(suffix):
            yield f"{path}{file.name}", file.read_text(encoding="utf-8")


def grouped(definitions: Iterable[CompiledDefinition]) -> Mapping[str, tuple[CompiledDefinition, ...]]:
    """Definitions by the xids of their groups, in order."""
    groups: dict[str, list[CompiledDefinition]] = {}
    for definition in definitions:
        groups.setdefault(group_of(definition.xid), []).append(definition)
    return {group: tuple(groups[group]) for group in sorted(groups)}


def _compute_fingerprint(definition: CompiledDefinition) -> str:
    use = definition.schema_use
    return fingerprint([definition.xid, lasting(definition), "" if use.schema is None else use.schema.fingerprint])


def lasting(definition: CompiledDefinition) -> JSONObject:
    """The definition, completed by its bases, without what a registry notes of it."""
    return {name: value for name, value in definition.definition.items() if name not in _VOLATILE}


def printable(text: str) -> str:
    """``text`` on one line."""
    return "".join(char if char.isprintable() else " " for char in text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """A generator of files: the object that an entry point of the group ``signalbook.generators`` names.

    ``summary`` describes it in one line; ``options`` are its options with their help. ``generate`` returns the files,
    for the same input the same bytes, and writes nothing. It raises ``GeneratorError``.
    """

    summary: str
    generate: Callable[[GeneratorInput], Generated]
    options: Mapping[str, str] = field(default_factory=dict)


def targets() -> Mapping[str, str]:
    """The targets there are, each with its summary; without one, if a package for it is missing."""
    summaries = {}
    for name in sorted(_find_offered()):
        try:
            summaries[name] = find_generator(name).summary
        except GeneratorError as error:
            summaries[name] = str(error)
    return summaries


def find_generator(target: str) -> Generator:
    """The generator of a target. Raises ``GeneratorError`` if there is none, or not all that it takes."""
    point = _find_offered().get(target.lower())
    if point is None:
        raise GeneratorError(f"there is no target {target!r}; there are: {', '.join(sorted(_find_offered()))}")
    try:
        generator: Generator = plugins.load(point)
    except ModuleNotFoundError as error:
        raise GeneratorError(f"{target} needs {error.name}: {plugins.install(*point.extras)}") from error
    return generator


def _find_offered() -> Mapping[str, EntryPoint]:
    return plugins.offered(GROUP, "generator", plugins.lower)


def read_input(
    target: str,
    registry: str,
    groups: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> GeneratorInput:
    """The definitions of a registry (its URL, a document, a folder), those of ``groups`` or all.

    Raises ``SignalbookError`` where there are none.
    """
    progress("reading the definitions")
    foreign = is_foreign(registry)
    documents = [] if foreign else read_documents(registry)
    snapshot = Snapshot.load(registry, groups) if foreign else Snapshot.of_registry(registry, documents, groups)
    contract = snapshot.compile(Policy())
    progress("reading their schemas")
    unusable = _format_reasons(contract.verify())
    return GeneratorInput(
        target=target,
        snapshot=snapshot,
        messages={xid: contract.definitions[xid] for xid in sorted(contract.definitions) if xid not in unusable},
        unusable=unusable,
        incomplete=_format_reasons(contract.incomplete),
        documents=tuple(document for _, document in documents),
        options=dict(options or {}),
        progress=progress,
    )


def _format_reasons(findings: Mapping[str, Sequence[Finding]]) -> dict[str, str]:
    return {xid: "; ".join(map(str, findings[xid])) for xid in sorted(findings)}


def generate(input: GeneratorInput) -> Generated:
    """The files of a target, and all definitions that are left out.

    Raises ``GeneratorError`` if an option is unknown or nothing is left to generate.
    """
    generator = find_generator(input.target)
    for name in input.options:
        if name not in generator.options:
            there = ", ".join(generator.options) or "none"
            raise GeneratorError(f"{input.target} has no option {name}; there are: {there}")
    if not input.messages:
        raise GeneratorError(_explain_nothing(input.unusable))
    generated = generator.generate(input)
    left_out = dict(sorted({**input.unusable, **generated.left_out}.items()))
    if not generated.files:
        raise GeneratorError(_explain_nothing(left_out))
    return Generated(files=tuple(sorted(generated.files, key=lambda file: file.path)), left_out=left_out)


def _explain_nothing(left_out: Mapping[str, str]) -> str:
    return "\n".join(["none of the definitions can be generated:", *(f"  {x}: {why}" for x, why in left_out.items())])
