"""``signalbook check``: would it be accepted, and if not, why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import typer
from typer import Argument, Option

from signalbook.cli.console import echo, output
from signalbook.cli.files import read_file
from signalbook.cli.registry import DbOption, ServerOption, open_registry, read_xid
from signalbook.cli.schemafiles import SchemaFile, forget_files
from signalbook.errors import RegistryError, SignalbookError
from signalbook.values import Finding, JSONObject, dump_json
from signalbook.verdict import Verdict
from signalbook.xid import Kind, Xid

if TYPE_CHECKING:
    from rich.text import Text

    from signalbook.cli.revisions import FileChange, RevisionFiles
    from signalbook.client.registry import Registry, WriteChecks
    from signalbook.documents import ImportPlan, SourceDocument
Checked = TypeVar("Checked")
_MAX_LINES: Final = 40
_MAX_VALUE: Final = 100
_GIT: Final = "git:"
_SCHEMAS: Final = (".avsc", ".proto", ".xsd")
"""The endings of files that are schemas by their names."""
_STYLES: Final = {"error": "red", "warning": "yellow", "info": "dim"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSource:
    """The verdict on one source, which of its files it is about, and what ``--lenient`` would repair in it."""

    name: str
    verdict: Verdict
    files: tuple[str, ...] = ()
    advice: str = ""

    def passes(self, strict: bool) -> bool:
        """Return True if it is accepted and breaks no rule, with ``strict`` without findings."""
        verdict = self.verdict
        return verdict.accepted and not verdict.broken and not (strict and verdict.doubtful)

    def to_json(self) -> JSONObject:
        """The form that ``--json`` prints."""
        files: JSONObject = {"files": list(self.files)} if self.files else {}
        advice: JSONObject = {"advice": self.advice} if self.advice else {}
        return {"source": self.name, **self.verdict.to_json(), **files, **advice}


Rule = Literal["backward", "backward_transitive", "forward", "forward_transitive", "full", "full_transitive"]


def run(
    sources: Annotated[list[str], Argument(metavar="SOURCE...", help="Files, folders, URLs, or -.")],
    server: ServerOption = None,
    db: DbOption = None,
    offline: Annotated[
        bool, Option("--offline", help="Ask a new, empty registry in this process instead of one that is there.")
    ] = False,
    against: Annotated[
        str | None,
        Option(
            "--against",
            metavar="WHAT",
            help="What SOURCE is to follow: a schema of the registry (its xid), a file, a folder, a URL, or what a git "
            "revision has in the place of SOURCE (git:REVISION).",
        ),
    ] = None,
    compatibility: Annotated[
        Rule | None,
        Option(
            "--compatibility",
            case_sensitive=False,
            help="The rule to judge schemas by; by default the schema's own, between files backward.",
        ),
    ] = None,
    format: Annotated[
        str,
        Option(
            "--format",
            metavar="NAME/VERSION",
            help="Format of the schema; by default what the file or the registry says.",
        ),
    ] = "",
    lenient: Annotated[bool, Option("--lenient", help="Read documents as import --lenient does.")] = False,
    ignore: Annotated[
        list[str] | None,
        Option("--ignore", metavar="NAME", help="Leave out a part of the documents, as import --ignore does."),
    ] = None,
    strict: Annotated[
        bool, Option("--strict", help="Take no finding, be it about a message or a schema that replaces another.")
    ] = False,
    as_json: Annotated[bool, Option("--json", help="Print the verdicts as one JSON object.")] = False,
) -> None:
    """Check whether something would be accepted, and if not, why; nothing is changed.

    SOURCE is what import takes: a document, a folder of documents, an http(s) URL, or - for standard input. Of what
    differs from the registry it is said what would become of it. With --against it is a schema, to be the next version
    of another, or documents (a folder, or a file named *.xreg.json, *.xreg.yaml or *.cereg), to follow earlier ones.
    The exit code is 0 if all is accepted, else 1.
    """
    from signalbook.cli.importing import load

    forget_files()
    questions = _Questions(format=format, rule=compatibility, lenient=lenient, ignore=tuple(ignore or ()))
    if against is None:
        if compatibility is not None or format:
            raise typer.BadParameter("--compatibility and --format go with --against")
        loaded, failures = _check_each(sources, lambda source: load(source, lenient=lenient))
        checked = []
        if loaded:
            with _open_asked(server, db, offline=offline) as registry:
                checked = _check_documents(registry, loaded, questions.ignore)
    elif _is_xid(against):
        xid = _parse_resource(against)
        with _open_asked(server, db, offline=offline) as registry:
            checked, failures = _check_each(
                sources, lambda source: [_check_next_version(registry, source, xid, questions)]
            )
    elif server is not None or db is not None or offline:
        raise typer.BadParameter(f"--server, --db and --offline go with an xid, and {against} is none")
    else:
        checked, failures = _check_each(sources, lambda source: _follow(source, against, questions))
    accepted = all(row.passes(strict) for row in checked) and not failures
    if checked:
        _report(checked, strict=strict, accepted=accepted, as_json=as_json)
    if failures:
        raise SignalbookError("\n".join(failures))
    if not accepted:
        raise typer.Exit(1)


def _check_each(
    sources: Iterable[str], check: Callable[[str], Iterable[Checked | SignalbookError]]
) -> tuple[list[Checked], list[str]]:
    """Check each source; returns the results, and why other sources could not be checked, each with its name.

    An error among the results is about one of several files of a source.
    """
    from signalbook.cli.importing import format_source

    checked: list[Checked] = []
    failures: list[str] = []
    for source in sources:
        name = format_source(source)
        try:
            for result in check(source):
                if isinstance(result, SignalbookError):
                    failures.append(str(result))
                else:
                    checked.append(result)
        except SignalbookError as error:
            failures.append(str(error) if name in str(error) else f"{name}: {error}")
    return checked, failures


@dataclass(frozen=True, slots=True, kw_only=True)
class _Questions:
    """The options that say what is asked of each source."""

    format: str = ""
    rule: Rule | None = None
    lenient: bool = False
    ignore: tuple[str, ...] = ()


def _check_documents(
    registry: Registry, sources: Iterable[SourceDocument], ignore: Sequence[str]
) -> list[CheckedSource]:
    """Check the import of each document into ``registry``. Raises ``SignalbookError``."""
    from signalbook.cli.importing import plan_import
    from signalbook.documents import DocumentError

    # What differs is found out first: the check has the database for itself.
    plans = []
    for row in sorted(sources, key=_has_no_model):
        try:
            plans.append((row, plan_import(registry, row.document, ignore)[1]))
        except DocumentError as error:
            raise DocumentError(f"{row.name}: {error}") from None
    with registry.checking() as checks:
        return [_describe_source(row, _check_plan(checks, plan, ignore)) for row, plan in plans]


def _check_plan(checks: WriteChecks, plan: ImportPlan, ignore: Sequence[str]) -> Verdict:
    if plan.upload is None:
        return Verdict()
    verdict = checks.patch(plan.upload.target, plan.upload.body, ignore=[*plan.upload.ignore, *ignore])
    return replace(verdict, changes=tuple(change for change in verdict.changes if not _is_stamp(change)))


def _is_stamp(change: JSONObject) -> bool:
    """Return True if an entity only passes a write on: its content changes, or nothing at all."""
    names = {str(name).removeprefix("meta.") for name in change.get("changed", ())}
    return change.get("action") == "updated" and names <= {"epoch", "modifiedat"}


def _check_next_version(registry: Registry, source: str, xid: Xid, questions: _Questions) -> CheckedSource:
    existing = registry.find(xid, deep=False)
    if existing is None:
        raise SignalbookError(f"the registry has no {xid}, and there is no such file (--against)")
    schema = _read_schema(source, questions.format)
    with registry.checking() as checks:
        name = schema.stated or checks.format_of(xid) or schema.format or _raise_unknown(xid)
        return CheckedSource(name=source, verdict=checks.version(xid, schema.content, name, questions.rule))


def _describe_source(source: SourceDocument, verdict: Verdict) -> CheckedSource:
    places = [str(finding.path) for finding in verdict.findings]
    for error in verdict.errors:
        places += [str(error.get("subject", "")), *(str(fault.get("path", "")) for fault in error.get("faults", ()))]
    files = source.find_parts_naming([place.partition("#")[0] for place in places]) if source.parts else []
    advice = "" if verdict.accepted else source.advice()
    return CheckedSource(name=source.name, verdict=verdict, files=tuple(files), advice=advice)


def _report(checked: list[CheckedSource], *, strict: bool, accepted: bool, as_json: bool) -> None:
    """Print the verdicts."""
    if as_json:
        echo(dump_json({"accepted": accepted, "checked": [row.to_json() for row in checked]}))
    else:
        screen = output()
        for row in checked:
            for line in verdict_lines(row.name, row.verdict, accepted=row.passes(strict), files=row.files):
                screen.print(line, soft_wrap=True)
            for advice in row.advice.splitlines():
                screen.print(f"  {advice}", soft_wrap=True, markup=False)


def _is_xid(against: str) -> bool:
    """Return True if ``--against`` names an entity. An existing file comes first, since an xid looks like a path."""
    return against.startswith("/") and not Path(against).exists()


def _parse_resource(text: str) -> Xid:
    xid = read_xid(text, "--against", "no file and ")
    if xid.kind is not Kind.RESOURCE:
        raise typer.BadParameter(f"{text!r} names no schema, such as /schemagroups/g/schemas/s", param_hint="--against")
    return xid


def _follow(source: str, against: str, questions: _Questions) -> Sequence[CheckedSource | SignalbookError]:
    """The verdict on ``source`` as what follows ``against``; no registry is asked. Raises ``SignalbookError``.

    Of a folder that follows a git revision there is one for each schema that changed, and one for its documents.
    """
    from signalbook.cli.importing import format_source, is_url
    from signalbook.documents import DocumentError

    documents = _has_documents(source)
    if against.startswith(_GIT):
        revision = against.removeprefix(_GIT)
        if Path(source).is_dir():
            return _check_folder_since(source, revision, questions)
        return [(_check_documents_since if documents else _check_schema_since)(source, revision, questions)]
    if not is_url(against):
        if not Path(against).exists():
            raise DocumentError(f"--against {against}: there is no such file or folder")
        if documents is not _has_documents(against):
            raise SignalbookError(
                f"{format_source(source)} and {against} (--against) are not both schemas, or both documents"
            )
    if documents:
        return [_check_documents_after(source, against, questions)]
    same_kind = Path(source).suffix == Path(against).suffix
    return [_check_schema_after(source, _read_schema(against, questions.format), questions, same_kind=same_kind)]


def _has_documents(source: str) -> bool:
    """Return True if the name is that of registry documents; all others are schemas."""
    from signalbook.documents import NAMED

    return source.partition("?")[0].endswith(NAMED) or Path(source).is_dir()


def _check_schema_after(source: str, earlier: SchemaFile, questions: _Questions, *, same_kind: bool) -> CheckedSource:
    later = _read_schema(source, questions.format or (earlier.format if same_kind else ""))
    return CheckedSource(name=later.name, verdict=compare(later, earlier, questions.rule or "backward"))


def _check_schema_since(source: str, revision: str, questions: _Questions) -> CheckedSource:
    from signalbook.cli.revisions import file_at
    from signalbook.documents import guess_format

    content = file_at(Path(source), revision)
    if content is None:
        message = f"compared with nothing: git has none at {revision}"
        note = Finding(path=source, rule="not_compared", message=message, severity="info")
        return CheckedSource(name=source, verdict=Verdict(findings=(note,)))
    stated = questions.format or guess_format(source, content)
    earlier = SchemaFile(name=source, content=content, stated=stated, revision=revision)
    return _check_schema_after(source, earlier, questions, same_kind=True)


def _check_folder_since(source: str, revision: str, questions: _Questions) -> list[CheckedSource | SignalbookError]:
    """Compare the schemas of a folder with those of a revision, and its documents if it has any.

    A schema that has another name is compared with what it was; one that is gone is a finding. What cannot be compared
    is an error among the results.
    """
    from signalbook.cli.revisions import changed_files, files_at
    from signalbook.documents import NAMED, find_files

    changes = {str(change.new or change.old): change for change in changed_files(Path(source), revision)}
    files = files_at(Path(source), revision)

    def check(name: str) -> Iterator[CheckedSource]:
        if name == source:
            yield _check_documents_since(source, revision, replace(questions, format="", rule=None))
        elif files.is_file(changes[name].old):  # no link or submodule
            yield from _check_change_since(changes[name], files, revision, questions)

    has_documents = find_files(Path(source), NAMED) or not (changes or find_files(Path(source), _SCHEMAS))
    checked, failures = _check_each([*changes, *([source] if has_documents else [])], check)
    return [*checked, *map(SignalbookError, failures)] or [CheckedSource(name=source, verdict=Verdict())]


def _check_change_since(
    change: FileChange, files: RevisionFiles, revision: str, questions: _Questions
) -> Iterator[CheckedSource]:
    """Yield the verdict on a file of a folder, if it is a schema, or a document that is gone."""
    from signalbook.documents import NAMED, guess_format

    old, new = change
    content, is_document = files.read(old), old.name.endswith(NAMED)
    stated = "" if is_document else guess_format(old.name, content)
    if new is None and (stated or is_document):
        yield _report_deleted(old, revision)
    elif new is not None and stated:
        earlier = SchemaFile(name=str(old), content=content, stated=questions.format or stated, revision=revision)
        yield _check_schema_after(str(new), earlier, questions, same_kind=old.suffix == new.suffix)


def _report_deleted(path: Path, revision: str) -> CheckedSource:
    message = (
        f"git has it at {revision}: whoever reads or writes by it still needs it; restore it, or leave out --strict"
    )
    finding = Finding(path=str(path), rule="deleted", message=message, severity="warning")
    return CheckedSource(name=str(path), verdict=Verdict(findings=(finding,)))


def _check_documents_since(source: str, revision: str, questions: _Questions) -> CheckedSource:
    from signalbook.cli.revisions import copy_at

    with copy_at(Path(source), revision) as earlier:
        return _check_documents_after(source, None if earlier is None else str(earlier), questions)


def _check_documents_after(source: str, against: str | None, questions: _Questions) -> CheckedSource:
    """Check documents in a temporary registry with the content of ``against``, if anything."""
    from signalbook.cli.importing import format_source, import_source, load

    name = format_source(source)
    if questions.format or questions.rule:
        raise SignalbookError(f"{name} has documents: they state formats and rules themselves (meta.compatibility)")
    with open_registry(None, "sqlite://", create=True) as registry:
        for document in () if against is None else load(against, lenient=questions.lenient):
            try:
                import_source(registry, document, ignore=questions.ignore, to=None)
            except SignalbookError as error:
                raise SignalbookError(f"what {name} is to follow cannot be read: {error}") from None
        (checked,) = _check_documents(registry, load(source, lenient=questions.lenient), questions.ignore)
        return checked


def _read_schema(source: str, format: str) -> SchemaFile:
    """The schema in a file, behind a URL or in standard input. Raises ``DocumentError``."""
    from signalbook.cli.importing import fetch, format_source, is_url

    content = fetch(source)[0] if is_url(source) else read_file(source)
    return SchemaFile(name=format_source(source), content=content, stated=format)


def _has_no_model(source: SourceDocument) -> bool:
    """Return False if the document has a model: a sort key that puts models first, because others may need them."""
    return not (isinstance(source.document, dict) and source.document.keys() & {"modelsource", "groups"})


def verdict_lines(name: str, verdict: Verdict, *, accepted: bool = False, files: Sequence[str] = ()) -> Iterator[Text]:
    """The verdict on the source ``name`` for people: what would happen, or what is in the way."""
    from rich.text import Text

    word = ("accepted", "bold green") if accepted else ("refused", "bold red")
    yield Text.assemble(word, f"  {name}")
    for change in verdict.changes[:_MAX_LINES]:
        yield Text(f"  {change['xid']} would be {change['action']}", style="dim")
    if len(verdict.changes) > _MAX_LINES:
        yield Text(f"  … and {len(verdict.changes) - _MAX_LINES} more", style="dim")
    for error in verdict.errors:
        yield Text(f"  {error.get('title', '')}", style="red")
        if error.get("detail"):
            yield Text(f"  {error['detail']}")
        for fault in error.get("faults", ()):
            yield from fault_lines(fault, "red")
    for finding in verdict.findings:
        yield from fault_lines(finding.to_json(), _STYLES[finding.severity])
    for file in files[:_MAX_LINES]:
        yield Text(f"  in {file}")


def fault_lines(fault: JSONObject, style: str) -> Iterator[Text]:
    """A finding for people, in a ``style`` of rich."""
    from rich.text import Text

    word = {"warning": "warning", "info": "note"}.get(str(fault.get("severity"))) or str(fault.get("rule", "fault"))
    yield Text.assemble("  ", (word, style), f"  {fault.get('path') or '/'}")
    yield Text(f"      {fault.get('message', '')}")
    for side in ("old", "new"):
        if side in fault:
            yield Text(f"      {side}: {_shorten(fault[side])}", style="dim")


def _shorten(value: Any) -> str:
    text = dump_json(value).decode("utf-8")
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"


def _open_asked(server: str | None, db: str | None, *, offline: bool) -> AbstractContextManager[Registry]:
    """Open the registry of the options: a server, a database (default: the setting ``db``), or a new one in memory.

    Raises ``SignalbookError``, and ``typer.BadParameter`` for options that exclude each other.
    """
    if sum((server is not None, db is not None, offline)) > 1:
        raise typer.BadParameter("give one of --server, --db and --offline")
    return open_registry(server, "sqlite://" if offline else db, create=offline)


def compare(new: SchemaFile, old: SchemaFile, rule: str) -> Verdict:
    """Compare ``new`` with its predecessor ``old`` under ``rule``, without a registry.

    Raises ``SignalbookError`` for a format that is unknown or has no comparison.
    """
    from signalbook.formats.base import SchemaError, list_supported
    from signalbook.formats.compatibility import SchemaText, convert_difference, find_comparison, list_differences

    for schema in (new, old):
        if not schema.format:
            raise _build_format_error(f"the format of {schema.label} is unknown")
        if find_comparison(schema.format) is None:
            comparable = ", ".join(name for name in list_supported() if find_comparison(name) is not None)
            raise SignalbookError(f"schemas of format {schema.format!r} cannot be compared; those of {comparable} can")
    # What is no schema of its format cannot be compared.
    broken = [_find_violation(schema) for schema in (new, old)]
    if any(broken):
        return Verdict.refused(*(error for error in broken if error is not None))
    texts = [SchemaText(document=file.content, format=file.format, resolve=file.resolve) for file in (new, old)]
    try:
        differences = list_differences(rule, *texts)
    except SchemaError as error:
        raise SignalbookError(f"{new.name} cannot be compared with {old.label}: {error}") from None
    if not differences:
        return Verdict()
    faults = [convert_difference(*violation, document=new.name, against=old.label) for violation in differences]
    detail = f"{new.name} does not fit behind {old.label}"
    return Verdict.refused(
        RegistryError("compatibility_violation", subject=new.name, compat=rule, detail=detail, faults=faults)
    )


def _build_format_error(reason: str) -> SignalbookError:
    return SignalbookError(f"{reason}: name it with --format, such as --format JsonSchema/draft-07")


def _raise_unknown(xid: Xid) -> str:
    raise _build_format_error(f"neither {xid} nor the file shows a format")


def _find_violation(schema: SchemaFile) -> RegistryError | None:
    from signalbook.formats.base import UnresolvedReferences, find
    from signalbook.formats.compatibility import SchemaText
    from signalbook.formats.references import has_open_references, is_importing

    reader = find(schema.format)
    faults = reader.check(schema.content, schema.format) if reader is not None else []
    if has_open_references(faults) and is_importing(reader):
        try:
            faults = reader.check_whole(
                SchemaText(document=schema.content, format=schema.format, resolve=schema.resolve)
            )
        except UnresolvedReferences as error:
            raise SignalbookError(f"{schema.label} cannot be checked: {error}") from None
    faults = [fault for fault in faults if fault.severity == "error"]
    if not faults:
        return None
    return RegistryError("format_violation", subject=schema.label, format=schema.format, faults=faults)
