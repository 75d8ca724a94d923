"""``signalbook try``: from files or topics of messages to typed tables, without definitions and without Spark."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Option

from signalbook.cli.console import counts_table, echo, notice, output, plain, table, violations_table, working
from signalbook.cli.files import write_pieces
from signalbook.cli.outputs import FromOption, MaxMessagesOption, TopicOption, build_excerpt
from signalbook.cli.pipeline import show_progress
from signalbook.cli.replay import SubjectsOption
from signalbook.errors import SignalbookError
from signalbook.uris import without_user
from signalbook.values import dump_json, format_count

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

    from signalbook.pipeline import InferredDefinitions, Job, Report
    from signalbook.pipeline.job.subjects import Strategy

SAMPLE_MESSAGES: Final = 50_000
_DEFINITIONS: Final = "definitions"
_LAKE: Final = "lake"
_MESSAGES: Final = "messages"
_BATCH: Final = "try"
_GROUP_CHARS: Final = 64
_SHOWN_TABLES: Final = 10
_SHOWN_ROWS: Final = 3
_SHOWN_COLUMNS: Final = 6
_SHOWN_DOUBTS: Final = 3
_CELL_CHARS: Final = 30
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)


class FolderInUse(SignalbookError):
    """The folder for the results has files already."""


class TooManyKinds(SignalbookError):
    """The input has more kinds of messages than inference can make definitions of."""


def run(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH|URL...",
            help="Files, folders or globs of messages, or a topic such as kafka://HOST:PORT/TOPIC.",
            show_default=False,
        ),
    ],
    folder: Annotated[Path, Option("--folder", metavar="DIR", help="Where everything goes.")] = Path("signalbook-try"),
    by: Annotated[
        str, Option("--by", metavar="MEMBER", help="Member of plain JSON that tells kinds of messages apart.")
    ] = "",
    input_format: Annotated[
        str, Option("--input-format", metavar="FORMAT", help="What the input holds; the first file shows it.")
    ] = "",
    registry: Annotated[
        str | None,
        Option(
            "--registry",
            metavar="URL|FILE|DIR",
            help="Use these definitions instead of inferring them; of a schema registry the subjects.",
        ),
    ] = None,
    subjects: SubjectsOption = None,
    max_messages: MaxMessagesOption = None,
    end: FromOption = None,
    option: TopicOption = None,
    as_json: Annotated[bool, Option("--json", help="Print the result as one JSON object.")] = False,
) -> None:
    """Land messages in typed tables, without definitions, without Spark, without a server.

    Definitions are inferred from at most 50,000 messages, and all messages are landed by them, in the processes of this
    machine. Everything goes to one folder: definitions to edit, Parquet tables, and dead letters with their reasons.
    The messages that are now in a Kafka topic, at most --max-messages, are first copied to this folder.

    Messages in Avro or Protobuf with the ids of their schemas need --registry: a Signalbook server, or confluent+ and
    the URL of another schema registry. Its subjects are named by --subjects, by default topic.
    """
    from signalbook import pipeline
    from signalbook.documents import write_document
    from signalbook.pipeline.job.runner import LocalRunner
    from signalbook.pipeline.sources.detection import detect_format

    if registry is not None and by:
        raise typer.BadParameter("--by is for inferred definitions: leave out --registry")
    if subjects is not None and registry is None:
        raise typer.BadParameter("--subjects are those of a registry: name it by --registry")
    _check_folder(folder)
    runner = LocalRunner()
    notify = cache(notice)  # inference and the run have the same notes on the input
    group = choose_group(inputs[0])
    inferred = None
    with (
        working("reading") as progress,
        pipeline.spool_inputs(
            inputs,
            input_format,
            build_excerpt(max_messages, end, option),
            folder=folder / _MESSAGES,
            has_definitions=registry is not None,
            progress=progress,
            notify=notify,
        ) as (files, file_format),
    ):
        if registry is None:
            sample = pipeline.InferenceJob(
                inputs=files, group=group, input_format=file_format, by=by, limit=SAMPLE_MESSAGES
            )
            inferred = pipeline.infer(sample, progress, notify=notify, runner=runner)
    if inferred is None:
        file_format = file_format or detect_format(files, pipeline.Storage())
        definitions = str(registry)
    else:
        _check_kinds(len(inferred.messages))
        file_format = inferred.input_format
        path = folder / _DEFINITIONS / f"{group}.xreg.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_pieces(path, [write_document(inferred.document, name=path.name)])
        definitions = str(path)
    job = pipeline.Job(
        registry=definitions,
        subjects=subjects or _choose_subjects(registry, file_format),
        inputs=files,
        input_format=file_format,
        output=folder / _LAKE,
        batch_id=_BATCH,
        table_format="parquet",
        partition="none",
    )
    with show_progress() as show:
        report = pipeline.run(job, progress=show, notify=notify, runner=runner)
    if as_json:
        result = {"definitions": without_user(definitions), "landed": report.to_json()}
        echo(dump_json(result if inferred is None else result | {"inferred": inferred.to_json()}))
    else:
        _print_result(folder, inputs, job, inferred, report)


def _choose_subjects(registry: str | None, source_format: str) -> Strategy:
    """Return the usual strategy for subjects if ``registry`` is a URL and the messages are Kafka records, else ""."""
    from signalbook.pipeline.job.documents import URL, is_foreign
    from signalbook.pipeline.sources.captures import KAFKA

    is_url = registry is not None and (is_foreign(registry) or registry.startswith(URL))
    return "topic" if is_url and source_format == KAFKA.name else ""


def choose_group(text: str) -> str:
    """Return the id of the group for the input ``text``: the name of the file or topic without its suffixes."""
    from signalbook.pipeline.sources.kafka_spool import SCHEME

    if text.startswith(SCHEME):
        text = text.partition("?")[0]  # options may contain secrets
    return _UNSAFE.sub("-", Path(text).name.partition(".")[0]).strip("-._")[:_GROUP_CHARS] or "messages"


def _check_folder(folder: Path) -> None:
    """Raise ``FolderInUse`` unless the folder is new, empty, or what a trial left that was interrupted."""
    from signalbook.pipeline import place_of
    from signalbook.pipeline.journal import Journal
    from signalbook.pipeline.sources.kafka_spool import SPOOLED_FILES

    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if not names:
        return
    is_own = names <= {_DEFINITIONS, _LAKE, _MESSAGES} and all(
        path.match(SPOOLED_FILES) for path in (folder / _MESSAGES).glob("*")
    )
    if not is_own or Journal(place_of(folder / _LAKE)).find(_BATCH) is not None:
        raise FolderInUse(f"{folder} is not empty: remove it, or name another one by --folder")


def _check_kinds(count: int) -> None:
    """Raise ``TooManyKinds`` if inference reached its limit, so that most messages have no definition."""
    from signalbook.pipeline.inference.observations import MOST_KINDS

    if count >= MOST_KINDS:
        raise TooManyKinds(
            f"there are {count:,} kinds of messages or more, and each would have its own table: do the types of the "
            "events contain ids? To see the types: signalbook pipeline infer"
        )


def _print_result(
    folder: Path, inputs: Sequence[str], job: Job, inferred: InferredDefinitions | None, report: Report
) -> None:
    screen = output()
    result = report.to_json()
    landed = sorted(((counts["landed"], xid) for xid, counts in result["by_message"].items()), reverse=True)
    paths = {xid: _find_table_path(folder, xid) for count, xid in landed if count}
    for xid, path in list(paths.items())[:_SHOWN_TABLES]:
        screen.print(_build_rows_table(xid, path, result["by_message"][xid]["landed"]))
    if len(paths) > _SHOWN_TABLES:
        screen.print(f"… and {format_count(len(paths) - _SHOWN_TABLES, 'more table')} in {folder / _LAKE / 'tables'}")
    if result["reasons"]:
        screen.print(counts_table("reason", "Dead letters", result["reasons"].items()))
    if result["violations"]:
        screen.print(violations_table(result["violations"]))
    screen.print(
        f"{format_count(result['read'], 'message')}: {result['landed']:,} in {format_count(len(paths), 'table')}, "
        f"{format_count(result['dead_lettered'], 'dead letter')}, in {result['seconds']:,.1f} s",
        soft_wrap=True,
    )
    for doubt in [] if inferred is None else inferred.doubts[:_SHOWN_DOUBTS]:
        screen.print(plain(f"Check {doubt['definition']} {doubt['path'] or '/'}: {doubt['doubt']}"), soft_wrap=True)
    steps = {}
    if paths:
        steps["Query a table"] = _build_query(next(iter(paths.values())), "*")
    if result["dead_lettered"]:
        columns = "reason, violations[1].message AS violation, TRY(decode(original)) AS message"
        steps["Look at dead letters"] = _build_query(folder / _LAKE / "dead_letters", columns)
    steps |= _list_next_steps(folder, inputs, job, is_inferred=inferred is not None)
    screen.print()
    for title, command in steps.items():
        screen.print(f"{title}:\n    {plain(command)}", soft_wrap=True, markup=False, highlight=False)


def _build_query(path: Path, columns: str) -> str:
    """Return the command that shows the first rows of the Parquet files in ``path``."""
    files = str(path / "*.parquet").replace('"', '""')
    selection = "" if columns == "*" else f"SELECT {columns} "
    return shlex.join(["duckdb", "-c", f'{selection}FROM "{files}" LIMIT 5'])


def _list_next_steps(folder: Path, inputs: Sequence[str], job: Job, *, is_inferred: bool) -> dict[str, str]:
    """Return commands to go on with, by what they do."""
    steps = {}
    if is_inferred:
        edited = ("--registry", job.registry, "--folder", f"{folder}-edited")
        steps[f"Edit {job.registry}, and land the messages again"] = shlex.join(
            ["signalbook", "try", *job.inputs, *edited]
        )
        place = shlex.quote(str(Path(job.registry).parent))
        steps["Look at them at http://127.0.0.1:8080/ui"] = f"signalbook serve --from {place}"
        events = shlex.join(part for text in inputs for part in ("--from", _remove_options(text)))
        steps["Keep them in git"] = f"signalbook init NEW-FOLDER {events} --definitions {place}"
    options = choose_capture_options(job.inputs, job.input_format)
    steps["Land the same on Spark"] = shlex.join(
        [
            *("signalbook", "pipeline", "run", "--registry", without_user(job.registry)),
            *(("--subjects", job.subjects) if job.subjects else ()),
            *(part for text in job.inputs for part in ("--input", text)),
            *("--input-format", job.input_format),
            *(part for name, value in options.items() for part in ("--option", f"{name}={value}")),
            *("--output", str(folder / "spark-lake")),
        ]
    )
    return steps


def _remove_options(text: str) -> str:
    """Return an input without the options of its URL, which may contain secrets. A ``?`` in a path is a glob."""
    return text.partition("?")[0] if "://" in text else text


def choose_capture_options(inputs: Sequence[str], source_format: str) -> dict[str, str]:
    """Return the options that Spark needs for captures in Avro. Without Spark each file shows its format."""
    if not source_format.endswith("-captures"):
        return {}
    is_avro = any(Path(text).suffix == ".avro" or next(Path(text).glob("**/*.avro"), None) for text in inputs)
    return {"format": "avro"} if is_avro else {}


def _find_table_path(folder: Path, xid: str) -> Path:
    from signalbook.pipeline.table_names import build_table_name, find_table_folder

    return folder / _LAKE / find_table_folder(build_table_name(xid), "parquet")


def _build_rows_table(xid: str, path: Path, count: int) -> Table:
    """Return the first rows of a table with the first columns of its payload."""
    from rich.text import Text

    rows = _read_first_rows(path)
    names = [name for name in rows.schema.names if not name.startswith(("_", "ce_"))]
    grid = table(
        *(plain(name) for name in names[:_SHOWN_COLUMNS]),
        numbers=(),
        title=plain(f"{xid.rpartition('/')[2]}: {format_count(count, 'row')}, {format_count(len(names), 'column')}"),
    )
    for row in rows.to_pylist():
        grid.add_row(*(Text(_format_cell(row[name])) for name in names[:_SHOWN_COLUMNS]))
    return grid


def _read_first_rows(path: Path) -> pa.Table:
    import pyarrow.dataset

    rows: pa.Table = pyarrow.dataset.dataset(path).head(_SHOWN_ROWS)
    return rows


def _format_cell(value: object) -> str:
    """Return the beginning of a value as text, of lists and objects as JSON."""
    is_nested = isinstance(value, (dict, list))
    text = "" if value is None else plain(json.dumps(value, default=str) if is_nested else str(value))
    return text if len(text) <= _CELL_CHARS else f"{text[: _CELL_CHARS - 1]}…"
