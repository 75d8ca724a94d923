"""``signalbook init``: write a folder to keep in git, with definitions, a job file, a workflow for CI and a README."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated, Final

from typer import Argument, BadParameter, Option

from signalbook.cli.console import echo, notice, output, plain, working
from signalbook.cli.files import write_pieces
from signalbook.errors import SignalbookError
from signalbook.uris import without_user
from signalbook.values import JSON, JSONObject, dump_json, format_count

_DEFINITIONS: Final = "definitions"
_WORKFLOW: Final = ".github/workflows/definitions.yaml"
_EXAMPLE: Final = "shop"
_EXAMPLE_EVENTS: Final = "events/shop.jsonl"
_RULE: Final = "forward"
_COMMIT: Final = 'git init && git add . && git commit -m "Add definitions"'
_CHECK: Final = "signalbook check definitions --against git:HEAD --strict"
_KAFKA: Final = "kafka://"


class FilesExist(SignalbookError):
    """The folder has files already that would be overwritten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """The definitions of a folder by path, and the input of its job. ``options`` are those of the input."""

    group: str
    definitions: Mapping[str, bytes]
    inputs: tuple[str, ...]
    input_format: str
    options: Mapping[str, str]

    @property
    def is_topic(self) -> bool:
        """True if the job lands a topic."""
        return self.inputs[0].startswith(_KAFKA)

    @property
    def land_command(self) -> str:
        """The command that runs the job."""
        return f"signalbook pipeline {'stream' if self.is_topic else 'run'} --job job.toml"


def run(
    folder: Annotated[
        Path, Argument(metavar="FOLDER", help="A new folder, or one without such files.", show_default="this folder")
    ] = Path(),
    inputs: Annotated[
        list[str] | None,
        Option(
            "--from",
            metavar="PATH|URL",
            help="Infer definitions from these events, and land them: a file, folder, glob or topic; may be given "
            "again.",
            show_default="an example",
        ),
    ] = None,
    definitions: Annotated[
        Path | None,
        Option(
            "--definitions",
            metavar="FILE|DIR",
            help="Copy these definitions instead of inferring them, such as those of signalbook try.",
        ),
    ] = None,
    by: Annotated[
        str, Option("--by", metavar="MEMBER", help="Member of plain JSON that tells kinds of messages apart.")
    ] = "",
    input_format: Annotated[
        str, Option("--input-format", metavar="FORMAT", help="What the input holds; the first file shows it.")
    ] = "",
    as_json: Annotated[bool, Option("--json", help="Print the written files as one JSON object.")] = False,
) -> None:
    """Write a folder to keep in git: definitions, a job file, a workflow for CI and a README.

    Without options the definitions are an example of a shop, with a few events. With --from they are inferred from
    these events, as signalbook try does it, and the job lands these events. The workflow rejects pull requests with
    incompatible changes of definitions. Schemas without a compatibility rule get the rule forward.

    No file is overwritten.
    """
    if not inputs and (definitions is not None or by or input_format):
        raise BadParameter("--definitions, --by and --input-format need the events to land: name them by --from")
    if definitions is not None and by:
        raise BadParameter("--by is for inferred definitions: leave out --definitions")
    if inputs:
        _check_inputs(inputs)
        content = _read_content(folder, inputs, definitions, by, input_format)
        events = {}
    else:
        example = {f"{_EXAMPLE}.xreg.yaml": _read_starter("shop.xreg.yaml")}
        content = _Content(
            group=_EXAMPLE, definitions=example, inputs=(_EXAMPLE_EVENTS,), input_format="json", options={}
        )
        events = {_EXAMPLE_EVENTS: _read_starter("shop.jsonl")}
    repository = _find_repository(folder)
    path = "." if repository is None else folder.resolve().relative_to(repository).as_posix()
    written = dict(_build_files(content, path)) | events
    _write_files(folder, written)
    if repository is not None:
        notice(f"GitHub reads workflows only at the root of a repository: move {folder / '.github'} to {repository}")
    if as_json:
        echo(dump_json({"folder": str(folder), "files": list(written)}))
    else:
        _print_result(folder, list(written), content)


def _check_inputs(inputs: Sequence[str]) -> None:
    """Raise ``BadParameter`` for inputs that may contain secrets, because the job file is for git."""
    for text in inputs:
        if "://" in text and ("?" in text or without_user(text) != text):
            raise BadParameter(
                "the job file would have the options or the login of the URL: leave them out, and write them to the "
                "section options of job.toml, with ${NAME} for secrets"
            )


def _read_content(
    folder: Path, inputs: Sequence[str], definitions: Path | None, by: str, input_format: str
) -> _Content:
    """Return the inferred or copied definitions, and the input for the job file."""
    from signalbook.cli.trial import choose_capture_options, choose_group
    from signalbook.documents import write_document
    from signalbook.pipeline import Storage
    from signalbook.pipeline.sources.detection import detect_format

    group = choose_group(inputs[0])
    is_topic = inputs[0].startswith(_KAFKA)
    if definitions is None:
        document, detected = _infer_document(inputs, group, by, input_format)
        _add_rules(document)
        name = f"{group}.xreg.yaml"
        documents = {name: write_document(document, name=name)}
    else:
        documents = dict(_copy_definitions(definitions))
        detected = input_format or ("" if is_topic else detect_format(inputs, Storage()))
    return _Content(
        group=group,
        definitions=documents,
        inputs=tuple(_make_relative(text, folder) for text in inputs),
        input_format="" if is_topic else detected,
        options={} if is_topic else choose_capture_options(inputs, detected),
    )


def _infer_document(inputs: Sequence[str], group: str, by: str, input_format: str) -> tuple[JSONObject, str]:
    """Return a document inferred from ``inputs``, and their format."""
    from signalbook import pipeline
    from signalbook.cli.trial import SAMPLE_MESSAGES
    from signalbook.pipeline.job.runner import LocalRunner

    with (
        working("reading") as progress,
        pipeline.spool_inputs(inputs, input_format, pipeline.TopicExcerpt(), progress=progress, notify=notice) as (
            spooled,
            spooled_format,
        ),
    ):
        job = pipeline.InferenceJob(
            inputs=spooled, group=group, input_format=spooled_format, by=by, limit=SAMPLE_MESSAGES
        )
        inferred = pipeline.infer(job, progress, notify=notice, runner=LocalRunner())
    return inferred.document, inferred.input_format


def _copy_definitions(source: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a document or a folder of documents by path. Schemas in documents get a rule."""
    from signalbook.documents import find_documents, find_files, read_bytes, read_document, write_document

    if source.is_dir():
        documents = set(find_documents(source))
        paths = {path.relative_to(source).as_posix(): path for path in find_files(source, ("",))}
    else:
        documents = {source}
        paths = {source.name: source}
    for name, path in paths.items():
        content = read_bytes(path)
        if path in documents and path.suffix in (".json", ".yaml", ".yml"):
            document = read_document(path)[0]
            if _add_rules(document):
                content = write_document(document, name=name)
        yield name, content


def _add_rules(document: JSON) -> bool:
    """Add a compatibility rule to each schema of ``document`` that has none. Return True if one was added."""
    from signalbook.pipeline.job.documents import SCHEMAS, iterate_resources

    is_changed = False
    for _, schema in iterate_resources(document, SCHEMAS) if isinstance(document, dict) else ():
        meta = schema.get("meta", {}) if isinstance(schema, dict) else None
        if isinstance(meta, dict) and not meta.keys() & {"compatibility", "xref"}:
            members = {name: value for name, value in schema.items() if name != "meta"}
            schema.clear()
            # First, where a reader finds it: schemas may be long.
            schema.update({"meta": meta | {"compatibility": _RULE}} | members)
            is_changed = True
    return is_changed


def _make_relative(text: str, folder: Path) -> str:
    """Return the path ``text`` as it is named in ``folder``. URLs and absolute paths stay."""
    # The folder may be a link: ".." leads out of the folder that it leads to.
    is_fixed = "://" in text or Path(text).is_absolute()
    return text if is_fixed else Path(os.path.relpath(text, folder.resolve())).as_posix()


def _build_files(content: _Content, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the content of each file by its path in the folder, which is at ``path`` in its repository."""
    readme = Template(_read_starter("README.md").decode())
    words = {
        "group": content.group,
        "commit": _COMMIT,
        "check": _CHECK,
        "land": content.land_command.ljust(len(_CHECK)),
        "without_spark": shlex.join(["signalbook", "try", *content.inputs, "--registry", _DEFINITIONS]),
    }
    yield "README.md", readme.substitute(words).encode()
    for name, document in content.definitions.items():
        yield f"{_DEFINITIONS}/{name}", document
    yield "job.toml", _build_job(content).encode()
    yield _WORKFLOW, _read_starter("workflow.yaml").replace(b"FOLDER", _quote(path).encode())
    yield ".gitignore", _read_starter("gitignore")


def _build_job(content: _Content) -> str:
    """Return the text of the job file."""
    lines = [
        "# Paths are relative to the folder in which you run the command.",
        f'registry = "{_DEFINITIONS}"',
        f"inputs = {_quote(list(content.inputs))}",
    ]
    if content.input_format:
        lines.append(f"input_format = {_quote(content.input_format)}")
    lines += ['output = "lake"', 'table_format = "parquet"  # or "iceberg", "delta"']
    if content.options:
        lines += ["", "[options]", *(f"{name} = {_quote(value)}" for name, value in content.options.items())]
    if not content.is_topic:
        lines += [
            "",
            "# To land a topic live, replace inputs and input_format, and use signalbook pipeline stream:",
            f"# inputs = [{_quote(f'kafka://localhost:9092/{content.group}')}]",
            '# input_format = "kafka"',
        ]
    lines += ["", "[stream]", f"name = {_quote(content.group)}", "interval = 10  # seconds"]
    return "\n".join([*lines, ""])


def _quote(value: JSON) -> str:
    """Return a text or a list of texts in TOML, whose basic strings have the escapes of JSON."""
    return dump_json(value).decode()


def _write_files(folder: Path, written: Mapping[str, bytes]) -> None:
    """Write all files. Raises ``FilesExist`` if one of them exists; then nothing is written."""
    existing = [name for name in written if (folder / name).exists()]
    if existing:
        raise FilesExist(f"{folder} has {', '.join(existing)} already, and nothing is overwritten: name a new folder")
    for name, file_content in written.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_pieces(path, [file_content])


def _find_repository(folder: Path) -> Path | None:
    """Return the git repository that ``folder`` is in; None if it is in none, or the root of one."""
    home = folder.resolve()
    if (home / ".git").exists():
        return None
    return next((parent for parent in home.parents if (parent / ".git").exists()), None)


def _read_starter(name: str) -> bytes:
    return (files("signalbook.cli") / "starter" / name).read_bytes()


def _print_result(folder: Path, written: Sequence[str], content: _Content) -> None:
    screen = output(soft_wrap=True)
    screen.print(f"{format_count(len(written), 'file')} in {plain(str(folder))}:", markup=False, highlight=False)
    for name in written:
        screen.print(f"    {plain(name)}", markup=False, highlight=False)
    screen.print("\nGo on in this folder, as its README says:", highlight=False)
    for command in (_COMMIT, content.land_command):
        screen.print(f"    {command}", markup=False, highlight=False)
