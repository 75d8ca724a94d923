"""``signalbook import``: documents into a registry, of which only what is new is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from typer import Argument, Option

from signalbook.cli.console import console, echo, say
from signalbook.cli.files import STANDARD_INPUT, read_file
from signalbook.cli.registry import DbOption, ServerOption, open_registry, read_xid
from signalbook.errors import RegistryError, SignalbookError
from signalbook.values import JSON, Finding, JSONObject, dump_json, format_count
from signalbook.xid import Kind, Xid

if TYPE_CHECKING:
    from signalbook.client.registry import Registry
    from signalbook.documents import ImportPlan, SourceDocument, Upload
_LENIENT: Final = (
    "Repair damaged JSON, and names and values of older drafts, and report each repair: what, where and why."
)
_MAX_LINES: Final = 20
"""Up to so many documents have a line each."""
EVENTS: Final = "builtin:events"
MODEL: Final = "builtin:model"
"""The definitions of the registry's own change events, which come with the program."""
_FETCH_TIMEOUT: Final = 30.0
_WORDS = (Kind.REGISTRY, Kind.GROUP, Kind.RESOURCE, Kind.VERSION)


class ImportFailed(SignalbookError):
    """A registry did not take a document."""


def run(
    paths: Annotated[list[str], Argument(metavar="PATH...", help="Files, folders, URLs, or -.")],
    server: ServerOption = None,
    db: DbOption = None,
    lenient: Annotated[bool, Option("--lenient", help=_LENIENT)] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show what would be created and updated, and change nothing.")
    ] = False,
    to: Annotated[
        str | None, Option("--to", metavar="XID", help="Import as this entity or collection, whatever its own name.")
    ] = None,
    ignore: Annotated[
        list[str] | None,
        Option(
            "--ignore",
            metavar="NAME",
            help="Leave out a part of the documents: capabilities, modelsource, ... (the API's flag ignore).",
        ),
    ] = None,
    strict: Annotated[
        bool, Option("--strict", help="Take no finding: a document that there is a doubt about is refused.")
    ] = False,
    as_json: Annotated[bool, Option("--json", help="Print what was imported as one JSON object.")] = False,
) -> None:
    """Bring registry documents into a registry.

    PATH is a file, a folder, an http(s) URL, - for standard input, builtin:events for the definitions of the registry's
    own change events, or builtin:model for the default model of this version. Of a folder the files named *.xreg.json,
    *.xreg.yaml and *.cereg are read, wherever they lie in it, or every .json and .yaml file if none is named so; a
    folder of .proto files becomes a schema group, whose schemas import each other by their paths in it. AsyncAPI
    documents become messages, schemas and endpoints, webhooks of OpenAPI messages, data contracts (ODCS) schemas and
    messages, Avro IDL (.avdl) schemas, services of CloudEvents discovery 0.1 groups and endpoints; what is lost is
    listed. What a document names is created or changed; what it does not name stays as it is. A document is imported
    whole or not at all, and so is a folder; several one after the other, models first. Where what is there changes,
    findings are shown: of a schema's new text above all whether its rule of compatibility lets it follow the one it
    replaces.
    """

    target = None if to is None else read_xid(to, "--to")
    sources = sorted((source for path in paths for source in load(path, lenient=lenient)), key=_rank_owners_first)
    if not as_json:
        for file, repair in (pair for source in sources for pair in source.iterate_repairs()):
            say(f"repaired {file}, {repair}", style="yellow")
    with open_registry(server, db, create=not dry_run) as registry:
        if dry_run:
            with registry.trying() as trial:
                take = partial(import_source, trial, ignore=ignore or (), to=target, strict=strict)
                imported = _import_all(take, sources, verb="" if as_json else "would import")
        else:
            take = partial(import_source, registry, ignore=ignore or (), to=target, strict=strict)
            imported = _import_all(take, sources, verb="" if as_json else "imported")
    if as_json:
        echo(dump_json({"imported": [row.to_json() for row in imported], "dry_run": dry_run}))


def _rank_owners_first(source: SourceDocument) -> tuple[bool, int]:
    """Models first, since other documents may need them; then the Registry, Groups, Resources."""
    from signalbook.documents import target_of

    document = source.document
    if not isinstance(document, dict):
        return True, 0
    return not document.keys() & {"modelsource", "groups"}, len(target_of(document).parts)


def _import_all(
    take: Callable[[SourceDocument], Imported], sources: list[SourceDocument], *, verb: str
) -> list[Imported]:
    """``verb`` begins the line about each document; without one there is none."""
    from rich.progress import track

    screen = console()
    imported: list[Imported] = []
    tracked: Iterable[SourceDocument] = track(
        sources, description="importing", console=screen, transient=True, disable=not verb or not screen.is_terminal
    )
    for source in tracked:
        try:
            row = take(source)
        except SignalbookError as error:
            raise ImportFailed(_describe_failure(source, error, len(imported), len(sources))) from None
        imported.append(row)
        if verb and len(sources) <= _MAX_LINES:
            say(f"{verb} {row}")
        for finding in row.findings[:_MAX_LINES] if verb else ():
            say(f"  {finding}", style="" if finding.severity == "info" else "yellow")
    if verb and len(sources) > _MAX_LINES:
        say(f"{verb} {len(sources)} documents: {summary(imported)}")
    return imported


def _describe_failure(source: SourceDocument, error: SignalbookError, imported: int, total: int) -> str:
    lines = [f"{source.name}: {error}"]
    places = [getattr(error, "subject", ""), *(fault.path for fault in getattr(error, "faults", ()))]
    lines += [f"  in {name}" for name in source.find_parts_naming(places)[:_MAX_LINES]]
    if total > 1:
        lines.append(f"{imported} of {total} documents were imported before it, nothing of this one")
    advice = source.advice()
    return "\n".join([*lines, advice] if advice else lines)


def load(source: str, *, lenient: bool) -> Iterator[SourceDocument]:
    """The documents behind ``source``, those of a folder as one. Raises ``DocumentError``."""
    from signalbook.cncf.messagecatalog.documents import adopt_catalog_documents
    from signalbook.documents import DocumentError, guess_format, merge, parse_source, read_folder, read_source

    if source == STANDARD_INPUT:
        yield _adopt(_refuse_schema(parse_source(read_file(source), name="standard input", lenient=lenient)))
    elif source.startswith("builtin:"):
        yield _load_builtin(source)
    elif is_url(source):
        yield _adopt(_refuse_schema(_fetch(source, lenient)))
    elif Path(source).is_dir():
        documents = adopt_catalog_documents(read_folder(Path(source), lenient=lenient))
        # A folder of .proto files is one document, which another entity may be made of (--to).
        yield documents[0] if [part.name for part in documents] == [source] else merge(documents, name=source)
    else:
        try:
            document = read_source(Path(source), lenient=lenient)
        except DocumentError:
            if guess_format(source, b"") and Path(source).exists():  # by its name
                raise DocumentError(_explain_schema(source)) from None
            raise
        yield _adopt(_refuse_schema(document))


def is_url(source: str) -> bool:
    """Return True if ``source`` is a URL to fetch."""
    return source.lower().startswith(("http://", "https://"))


def format_source(source: str) -> str:
    """Return the name of a source to show: the name itself, or a URL without user and password."""
    from signalbook.uris import without_user

    return without_user(source) if is_url(source) else source


def _refuse_schema(source: SourceDocument) -> SourceDocument:
    """Return a registry document as it is. Raises ``DocumentError`` for a schema, by its name or content."""
    from signalbook.documents import DocumentError, guess_document_format, guess_format

    document = source.document
    has_groups = isinstance(document, dict) and any(name.endswith(("groups", "endpoints")) for name in document)
    if not has_groups and (guess_format(source.name, b"") or guess_document_format(document)):
        raise DocumentError(_explain_schema(source.name))
    return source


def _explain_schema(source: str) -> str:
    return (
        f"{source} is a schema, not a registry document: signalbook register {source} --group ID stores it, "
        f"signalbook check {source} --against WHAT compares it"
    )


def _adopt(source: SourceDocument) -> SourceDocument:
    """A document of a message catalog as one of a registry; any other as it is."""
    from signalbook.cncf.messagecatalog.documents import adopt_catalog_documents
    from signalbook.documents import merge

    documents = adopt_catalog_documents([source])
    return documents[0] if len(documents) == 1 else merge(documents, name=source.name)


def _load_builtin(name: str) -> SourceDocument:
    from signalbook.documents import DocumentError, SourceDocument
    from signalbook.events.definitions import change_event_definitions
    from signalbook.model import builtin

    documents: dict[str, Callable[[], JSONObject]] = {
        EVENTS: change_event_definitions,
        MODEL: partial(builtin, "default"),
    }
    if name not in documents:
        raise DocumentError(f"{name}: there is no such document in the program; there are {', '.join(documents)}")
    return SourceDocument(name=name, document=documents[name]())


def _fetch(url: str, lenient: bool) -> SourceDocument:
    from signalbook.documents import parse_source
    from signalbook.uris import without_user

    data, media_type = fetch(url)
    return parse_source(data, name=without_user(url), media_type=media_type, lenient=lenient)


def fetch(url: str) -> tuple[bytes, str]:
    """Fetch a URL within limits of time and size. Only http and https are followed. Raises ``DocumentError``."""
    import httpx

    from signalbook.documents import MAX_BYTES, DocumentError, check_size
    from signalbook.uris import is_address, without_user

    name = without_user(url)
    if not is_address(url):
        # The text of other errors would have parts of the URL, such as a password.
        raise DocumentError(f"{name}: cannot be read: it is no URL")
    try:
        with httpx.stream("GET", url, timeout=_FETCH_TIMEOUT, follow_redirects=True) as response:
            if not response.is_success:
                raise DocumentError(f"{name}: the server answers {response.status_code} {response.reason_phrase}")
            data = bytearray()
            for chunk in response.iter_bytes():
                data += chunk
                check_size(len(data), name=name, max_bytes=MAX_BYTES)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise DocumentError(f"{name}: cannot be read: {error or type(error).__name__}") from None
    return bytes(data), response.headers.get("content-type", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The effect of importing a document: entities created, updated and unchanged, in its order.

    ``findings`` are about its changes. A document with only new entities is checked only if it is rejected.
    """

    source: SourceDocument
    target: Xid
    created: tuple[Xid, ...] = ()
    updated: tuple[Xid, ...] = ()
    unchanged: tuple[Xid, ...] = ()
    findings: tuple[Finding, ...] = ()

    def __str__(self) -> str:
        return f"{self.source.name}: {summary([self])}"

    def to_json(self) -> JSONObject:
        """The form that ``--json`` prints."""
        return {
            "source": self.source.name,
            "target": str(self.target),
            "created": [str(xid) for xid in self.created],
            "updated": [str(xid) for xid in self.updated],
            "unchanged": [str(xid) for xid in self.unchanged],
            "repairs": [
                {"source": file, **{name: value for name, value in asdict(repair).items() if name != "file"}}
                for file, repair in self.source.iterate_repairs()
            ],
            "findings": [finding.to_json() for finding in self.findings],
        }


def summary(rows: Iterable[Imported]) -> str:
    """Return a short summary of several imports."""
    created, updated, unchanged = zip(*((row.created, row.updated, row.unchanged) for row in rows), strict=True)
    parts = [
        f"{word} {_format_counts(xids)}" for word, xids in (("created", created), ("updated", updated)) if any(xids)
    ]
    if any(unchanged):
        parts.append(f"{_format_counts(unchanged)} unchanged")
    return "; ".join(parts) or "no entities"


def import_source(
    registry: Registry, source: SourceDocument, *, ignore: Sequence[str], to: Xid | None, strict: bool = False
) -> Imported:
    """Bring ``source`` into ``registry``, in one request that has only what is new. Raises ``SignalbookError``."""
    upload, work = plan_import(registry, source.document, ignore, to)
    sent, findings = work.upload, tuple[Finding, ...]()
    if sent is not None:
        ignored = [*sent.ignore, *ignore]
        # To ask a server costs as much as to write: what is all new replaces nothing.
        if strict or any(xid.kind in (Kind.RESOURCE, Kind.VERSION) for xid in work.changed):
            findings = registry.patch_reviewed(sent.target, sent.body, ignore=ignored, strict=strict)
        else:
            registry.patch(sent.target, sent.body, ignore=ignored)
    return Imported(
        source=source,
        findings=findings,
        target=upload.target,
        created=tuple(work.created),
        updated=tuple(work.changed),
        unchanged=tuple(work.unchanged),
    )


def plan_import(
    registry: Registry, document: JSON, ignore: Sequence[str], to: Xid | None = None
) -> tuple[Upload, ImportPlan]:
    """Return the request that brings ``document`` into ``registry``, and the part of it that is new there."""
    from signalbook.client.registry import plan_upload
    from signalbook.documents import compare

    upload = plan_upload(document, registry.modelsource, ignore, to)
    full_model = registry.model()
    find = partial(registry.find, deep=True)
    return upload, compare(upload, find, _find_collections(full_model, upload), _fill_defaults(full_model))


def _fill_defaults(full_model: JSONObject) -> Callable[[Xid, JSONObject], JSONObject]:
    """Return a function that adds the defaults of a model to the attributes of an entity."""
    from signalbook.model import compile_model

    compiled = cache(partial(compile_model, full_model))

    def fill(xid: Xid, attributes: JSONObject) -> JSONObject:
        try:
            model = compiled()
        except RegistryError:  # the model of another implementation: without defaults more counts as new
            return attributes
        kind = model.resource_type(xid) or model.group_type(xid) or model
        return {**attributes, **kind.attributes.check(attributes).values}

    return fill


def _find_collections(model: JSONObject, upload: Upload) -> Callable[[Xid], Iterable[str]]:
    """Return the collections an entity has by ``model``, or by the model that ``upload`` brings."""
    source = upload.body.get("modelsource")
    brought = source.get("groups") if isinstance(source, dict) else None
    groups: JSONObject = {**model["groups"], **(brought if isinstance(brought, dict) else {})}

    def names(xid: Xid) -> Iterable[str]:
        match xid.kind:
            case Kind.REGISTRY:
                return groups
            case Kind.GROUP:
                resources: JSONObject = groups.get(xid.group_type, {}).get("resources") or {}
                return resources
            case Kind.RESOURCE:
                return ("versions",)
            case _:
                return ()

    return names


def _format_counts(xids: Iterable[Iterable[Xid]]) -> str:
    counts = Counter(xid.kind for xid in chain.from_iterable(xids))
    parts = (format_count(counts[kind], kind) for kind in _WORDS if counts[kind])
    return ", ".join(parts).replace("1 registry", "the registry")
