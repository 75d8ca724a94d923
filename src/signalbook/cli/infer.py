"""``signalbook pipeline infer``: message definitions inferred from messages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from typer import BadParameter, Exit, Option

from signalbook.cli.console import (
    console,
    counts_table,
    echo,
    notice,
    output,
    plain,
    say,
    table,
    violations_table,
    working,
)
from signalbook.cli.outputs import FromOption, MaxMessagesOption, StorageOption, TopicOption, build_excerpt, pairs
from signalbook.cli.registry import open_registry
from signalbook.errors import SignalbookError
from signalbook.values import JSONObject, dump_json, format_count
from signalbook.xid import Xid

if TYPE_CHECKING:
    from signalbook.client.registry import Registry
    from signalbook.pipeline import InferenceJob, InferredDefinitions, Proposal, SampleCheck, TopicExcerpt
    from signalbook.pipeline.job.runner import Runner
    from signalbook.verdict import Verdict

_MAX_LISTED: Final = 20
# The rule by which to compare versions of schemas without a rule of their own.
_BY_DEFAULT: Final = "backward"


class Taken(SignalbookError):
    """There are definitions where inferred ones were to go."""


def run(
    input: Annotated[
        list[str],
        Option(
            "--input",
            metavar="PATH|URL",
            help="File, folder, glob, or topic such as kafka://HOST:PORT/TOPIC; may be given again.",
        ),
    ],
    group: Annotated[str, Option("--group", metavar="ID", help="Id of the groups to infer.", show_default=False)] = "",
    input_format: Annotated[
        str,
        Option(
            "--input-format",
            metavar="FORMAT",
            help="What the input holds, such as json, cloudevents-jsonl, http-jsonl; the first file shows it.",
        ),
    ] = "",
    by: Annotated[
        str,
        Option(
            "--by",
            metavar="MEMBER",
            help="Member of plain JSON that tells kinds of messages apart, such as event or source.table.",
        ),
    ] = "",
    out: Annotated[Path | None, Option("--out", "-o", metavar="FILE", help="Write to this file.")] = None,
    server: Annotated[
        str | None, Option("--server", metavar="URL", help="Put it into the registry at this URL.")
    ] = None,
    db: Annotated[str | None, Option("--db", metavar="URL", help="Put it into the registry in this database.")] = None,
    against: Annotated[
        str | None,
        Option(
            "--against",
            metavar="URL|FILE|DIR",
            help="Infer nothing: report what these definitions accept and reject, such as an edited document.",
        ),
    ] = None,
    update: Annotated[
        str | None,
        Option(
            "--update",
            metavar="URL|FILE|DIR",
            help="Propose the next versions of those of these definitions that the messages have drifted from.",
        ),
    ] = None,
    accept: Annotated[
        float,
        Option(
            "--accept",
            metavar="SHARE",
            help="Share of held-back messages, with --against of all, to be accepted: 0 to 1.",
        ),
    ] = 0.99,
    limit: Annotated[int, Option("--limit", metavar="N", help="Look at about so many messages, 0 for all.")] = 0,
    master: Annotated[
        str, Option("--master", metavar="URL", help="Spark master; without it processes of this machine do the work.")
    ] = "",
    storage: StorageOption = None,
    max_messages: MaxMessagesOption = None,
    end: FromOption = None,
    option: TopicOption = None,
    as_json: Annotated[
        bool, Option("--json", help="Print the report as one JSON object, with the document if it goes nowhere else.")
    ] = False,
) -> None:
    """Infer message definitions and schemas from messages nobody has defined yet.

    CloudEvents are told apart by their type. For plain JSON a member is chosen that predicts what else a message has,
    such as event or type; --by names another one.

    The result is a registry document, to review and then import. It goes to standard output, with --out to a file, as
    YAML if its name ends in .yaml or .yml, and with --server or --db into a registry: its groups are labelled
    stage=draft, and replace none. Half of the messages are held back from a first inference, which is tried on them; if
    it accepts less than --accept of them, less is demanded: fewer required members, no enums. Messages of types that
    the other half has none of cannot be tried, and are counted apart.

    With --against nothing is inferred or written: the messages are checked with definitions that exist, as a run would.
    The exit code is 1 if less than --accept of them are accepted.

    With --update the JSON Schemas of definitions that exist are widened where messages have other shapes. Each becomes
    a next version, with its differences and the verdict of its compatibility rule (by default backward). The document
    goes to standard output or --out, to review and then import. The exit code is 1 if a version is not compatible.
    """
    from signalbook import pipeline

    job = pipeline.InferenceJob(
        inputs=tuple(input),
        group=group,
        input_format=input_format,
        by=by,
        accept=accept,
        limit=limit,
        master=master,
        storage=pipeline.storage_of(pairs(storage, "--storage")),
    )
    excerpt = build_excerpt(max_messages, end, option)
    registry = server is not None or db is not None
    if (against is not None or update is not None) and registry:
        raise BadParameter("--against and --update write to no registry: leave out --server and --db")
    if update is not None:
        if against is not None:
            raise BadParameter("give one of --against and --update")
        if out is not None and out.exists() and Path(update).resolve() in out.resolve().parents:
            raise BadParameter("--out would replace definitions by their new versions alone: name a new file")
        _update_definitions(job, excerpt, update, out, as_json=as_json)
        return
    if against is not None:
        if out is not None:
            raise BadParameter("--against writes nothing: leave out --out")
        _check_definitions(job, excerpt, against, as_json=as_json)
        return
    if not group:
        raise BadParameter("--group is missing")
    if registry:
        with open_registry(server, db, create=True) as target:
            _check_vacant(target, group)
    with _spool(job, excerpt, has_definitions=False) as (spooled, progress):
        inferred = pipeline.infer(spooled, progress, notify=notice, runner=_choose_runner(master))
    if out is not None:
        _write_document(out, inferred.document)
    if registry:
        with open_registry(server, db, create=True) as target:
            _store(target, group, inferred)
    elsewhere = registry or out is not None
    if as_json:
        echo(dump_json(inferred.to_json() | ({} if elsewhere else {"document": inferred.document})))
        return
    if not elsewhere:
        _write_document(None, inferred.document)
    _print_inferred(inferred)
    if not inferred.tried:
        say("warning: too few messages to try the definitions on", style="yellow")
    elif inferred.acceptance < accept:
        say(f"warning: the definitions accept less than {accept:.2%}: look at the reasons", style="yellow")


def _choose_runner(master: str) -> Runner | None:
    """Return the runner of processes of this machine, or None if there is a Spark ``master``."""
    from signalbook.pipeline.job.runner import LocalRunner

    return None if master else LocalRunner()


@contextmanager
def _spool(
    job: InferenceJob, excerpt: TopicExcerpt, *, has_definitions: bool = True
) -> Iterator[tuple[InferenceJob, Callable[[str], None]]]:
    """Yield ``job`` with files in place of its topics, and the progress to report to."""
    from signalbook import pipeline

    with (
        working("reading") as progress,
        pipeline.spool_inputs(
            job.inputs, job.input_format, excerpt, has_definitions=has_definitions, progress=progress, notify=notice
        ) as (inputs, input_format),
    ):
        yield replace(job, inputs=inputs, input_format=input_format), progress


def _check_definitions(job: InferenceJob, excerpt: TopicExcerpt, registry: str, *, as_json: bool) -> None:
    """Print how many messages the definitions accept and reject. Exit with 1 if they accept too few."""
    from signalbook import pipeline

    with _spool(job, excerpt) as (spooled, progress):
        checked = pipeline.check_sample(spooled, registry, progress, notify=notice, runner=_choose_runner(job.master))
    if as_json:
        echo(dump_json(checked.to_json()))
    else:
        _print_checked(checked)
    if checked.acceptance < job.accept:
        raise Exit(1)


def _update_definitions(
    job: InferenceJob, excerpt: TopicExcerpt, registry: str, out: Path | None, *, as_json: bool
) -> None:
    """Print and write proposed versions. Exit with 1 if one is not compatible with the version before it."""
    from signalbook import pipeline
    from signalbook.cli.check import compare
    from signalbook.cli.schemafiles import SchemaFile

    with _spool(job, excerpt) as (spooled, progress):
        proposal = pipeline.propose_versions(
            spooled, registry, progress, notify=notice, runner=_choose_runner(job.master)
        )
    if out is not None and proposal.versions:
        _write_document(out, proposal.document)
    verdicts = []
    for version in proposal.versions:
        names = ((version.xid, version.schema), (version.ancestor, version.ancestor_schema))
        new, old = (SchemaFile(name=name, content=dump_json(schema), stated=version.format) for name, schema in names)
        verdicts.append(compare(new, old, _BY_DEFAULT if version.rule in ("", "none") else version.rule))
    if as_json:
        report = {
            "versions": [
                {
                    "version": version.xid,
                    "definitions": list(version.definitions),
                    "changes": [{"path": change.path, "change": change.change} for change in version.changes],
                    "verdict": verdict.to_json(),
                }
                for version, verdict in zip(proposal.versions, verdicts, strict=True)
            ],
            "before": proposal.before.to_json(),
            "after": proposal.after.to_json(),
        }
        echo(dump_json(report | ({} if out is not None else {"document": proposal.document})))
    else:
        if out is None and proposal.versions:
            _write_document(None, proposal.document)
        _print_proposal(proposal, verdicts)
    if not all(verdict.accepted for verdict in verdicts):
        raise Exit(1)


def _print_proposal(proposal: Proposal, verdicts: Sequence[Verdict]) -> None:
    from signalbook.cli.check import verdict_lines

    screen = console()
    for version, verdict in zip(proposal.versions, verdicts, strict=True):
        for line in verdict_lines(version.xid, verdict, accepted=verdict.accepted):
            screen.print(line)
        for change in version.changes[:_MAX_LISTED]:
            say(f"  {plain(change.path or '/')} {plain(change.change)}")
        _say_unlisted(len(version.changes), ": --json lists them")
    if not proposal.versions:
        say("no schema needs another version")
    for words, checked in (("before", proposal.before), ("after", proposal.after)):
        read = format_count(checked.tally.read, "message")
        say(f"{words}: {checked.accepted:,} of {read} accepted ({checked.acceptance:.2%})")


def _print_checked(checked: SampleCheck) -> None:
    screen, result = output(), checked.to_json()
    grid = table("definition", numbers=("accepted", "rejected"), title="Messages")
    by_rejections = sorted(result["definitions"].items(), key=lambda row: (-row[1]["rejected"], -row[1]["accepted"]))
    for xid, counts in by_rejections[:_MAX_LISTED]:
        grid.add_row(plain(xid), f"{counts['accepted']:,}", f"{counts['rejected']:,}")
    if len(by_rejections) > _MAX_LISTED:
        grid.add_row(f"… and {len(by_rejections) - _MAX_LISTED} more: --json lists all", "", "")
    screen.print(grid)
    if result["reasons"]:
        reasons = sorted(result["reasons"].items(), key=lambda row: -row[1])
        screen.print(counts_table("reason", "Rejected", reasons))
    if result["violations"]:
        screen.print(violations_table(result["violations"]))
    screen.print(
        f"{format_count(result['read'], 'message')}: {result['accepted']:,} accepted ({checked.acceptance:.2%}), "
        f"{result['rejected']:,} rejected",
        soft_wrap=True,
    )


def _check_vacant(registry: Registry, group: str) -> None:
    """Raise ``Taken`` if the registry has one of the groups."""
    for kind in ("messagegroups", "schemagroups"):
        xid = Xid.parse(f"/{kind}/{group}")
        if registry.find(xid, deep=False) is not None:
            raise Taken(f"the registry has {xid} already, and inference replaces nothing: choose another --group")


def _store(registry: Registry, group: str, inferred: InferredDefinitions) -> None:
    from signalbook.cli.importing import import_source
    from signalbook.documents import SourceDocument

    # Again: others may have been registered during the inference.
    _check_vacant(registry, group)
    imported = import_source(
        registry, SourceDocument(name="inferred definitions", document=inferred.document), ignore=(), to=None
    )
    say(f"imported {imported}")


def _write_document(out: Path | None, document: JSONObject) -> None:
    from signalbook.cli.files import write_pieces
    from signalbook.documents import write_document

    if out is None:
        sys.stdout.buffer.write(write_document(document))
        sys.stdout.flush()
    else:
        write_pieces(out, [write_document(document, name=out.name)])


def _print_inferred(inferred: InferredDefinitions) -> None:
    screen = console()
    grid = counts_table("definition", "Inferred", list(inferred.messages.items())[:_MAX_LISTED])
    if len(inferred.messages) > _MAX_LISTED:
        grid.add_row(f"… and {len(inferred.messages) - _MAX_LISTED} more", "")
    screen.print(grid)
    held = inferred.tried + sum(inferred.unseen.values())
    screen.print(
        f"{format_count(inferred.read, 'message')} read, {inferred.unreadable:,} unreadable, "
        f"{inferred.unknown:,} broken or of an unknown kind\n"
        f"{held:,} held back: {inferred.accepted:,} of {inferred.tried:,} tried were accepted "
        f"({inferred.acceptance:.2%}); {inferred.rules}"
    )
    _print_counts(inferred.reasons)
    if inferred.unseen:
        screen.print(f"{sum(inferred.unseen.values()):,} held back are of types that the other half has none of:")
        _print_counts(inferred.unseen)
    if inferred.doubts:
        screen.print("Not sure of:")
        for doubt in inferred.doubts[:_MAX_LISTED]:
            say(f"  {plain(doubt['definition'])} {plain(doubt['path'] or '/')}: {plain(doubt['doubt'])}")
        _say_unlisted(len(inferred.doubts), ": --json lists them")


def _print_counts(counts: Mapping[str, int]) -> None:
    """Print the largest counts, and how many are left out."""
    for name, count in sorted(counts.items(), key=lambda item: -item[1])[:_MAX_LISTED]:
        say(f"  {count:,} {plain(name)}")
    _say_unlisted(len(counts))


def _say_unlisted(count: int, advice: str = "") -> None:
    """Print how many of ``count`` lines are not listed, if any."""
    if count > _MAX_LISTED:
        say(f"  … and {count - _MAX_LISTED} more{advice}")
