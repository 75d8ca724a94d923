"""``signalbook generate``: files made of definitions, kept up to date."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

from signalbook.cli.console import echo, notice, output, plain, print_json, say, table, working
from signalbook.cli.files import write_folder
from signalbook.cli.outputs import pairs
from signalbook.cli.registry import JsonOption, RegistryOption, add_slashes
from signalbook.values import JSONObject, format_count

if TYPE_CHECKING:
    from signalbook.codegen.base import Generated, GeneratorInput
    from signalbook.codegen.output import OutputPlan


_LEFT_OUT: Final = 3


def run(
    target: Annotated[str, Argument(metavar="TARGET", help="What to generate; list shows all targets.")],
    registry: RegistryOption = "",
    group: Annotated[
        list[str] | None,
        Option("--group", metavar="XID", callback=add_slashes, help="Only this message group or endpoint; repeatable."),
    ] = None,
    folder: Annotated[Path | None, Option("--output", "-o", metavar="DIR", help="The folder of the files.")] = None,
    option: Annotated[
        list[str] | None, Option("--option", metavar="NAME=VALUE", help="An option of the target; repeatable.")
    ] = None,
    check: Annotated[
        bool, Option("--check", help="Write nothing; the exit code is 1 if a file is out of date.")
    ] = False,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace generated files that were edited by hand.")] = False,
    json: JsonOption = False,
) -> None:
    """Make files of definitions: tables, documents, code.

    The same definitions give the same bytes. A file that this command did not write is never overwritten, and one that
    it wrote and somebody edited only with --overwrite; then nothing is written. Definitions that a target has no form
    for are named with the reason and left out, and the exit code is 3.
    """
    if target == "list":
        _print_targets(json)
        return
    if not registry or folder is None:
        raise typer.BadParameter("--registry and --output are required")
    from signalbook.codegen.base import generate, read_input
    from signalbook.codegen.output import plan_output

    with working(f"generating {plain(target)}") as progress:
        generator_input = read_input(target.lower(), registry, group or (), pairs(option, "--option"), progress)
        generated = generate(generator_input)
        plan = plan_output(folder, generator_input, generated)
        if not check:
            _write_plan(folder, plan, overwrite=overwrite)
    for xid, why in generator_input.incomplete.items():
        notice(f"{xid}: {why}")
    if json:
        print_json(_build_summary(generator_input, generated, plan, check=check))
    else:
        _print_plan(folder, generated, plan, check=check)
    if check and any(plan.stale):
        raise typer.Exit(1)
    if generated.left_out:
        raise typer.Exit(_LEFT_OUT)


def _print_targets(json: bool) -> None:
    from signalbook.codegen.base import targets

    summaries = targets()
    if json:
        print_json({"targets": [{"name": name, "summary": summary} for name, summary in summaries.items()]})
        return
    rows = table("target", "what it makes", numbers=())
    for name, summary in summaries.items():
        rows.add_row(name, plain(summary))
    output().print(rows)


def _write_plan(folder: Path, plan: OutputPlan, *, overwrite: bool) -> None:
    """Put the files in place, the manifest last. Raises ``GeneratorError`` if something would be lost."""
    from signalbook.codegen.base import GeneratorError
    from signalbook.documents import FolderFile

    lost = [f"{folder / path} was not generated here: remove it, or use another folder" for path in plan.foreign]
    if not overwrite:
        lost += [f"{folder / path} was edited by hand: --overwrite replaces it" for path in plan.edited]
    if lost:
        raise GeneratorError("\n".join(["nothing is written:", *(f"  {plain(line)}" for line in lost)]))
    files = [FolderFile(path=PurePosixPath(path), content=content) for path, content in plan.writes.items()]
    if files:
        write_folder(folder, files, instead=map(PurePosixPath, plan.removed))


def _print_plan(folder: Path, generated: Generated, plan: OutputPlan, *, check: bool) -> None:
    for xid, why in generated.left_out.items():
        say(f"left out {plain(xid)}: {plain(why)}")
    if check:
        for path, reason in plan.stale:
            echo(f"{plain(str(folder / path))} {reason}")
    count = len(generated.files)
    kinds = (("new", plan.created), ("changed", plan.updated), ("removed", plan.removed))
    changes = ", ".join(f"{len(paths)} {kind}" for kind, paths in kinds if paths) or "no change"
    say(f"{'checked' if check else 'generated'} {format_count(count, 'file')} in {plain(str(folder))}: {changes}")


def _build_summary(
    generator_input: GeneratorInput, generated: Generated, plan: OutputPlan, *, check: bool
) -> JSONObject:
    document: JSONObject = {
        "target": generator_input.target,
        "definitions": len(generator_input.messages),
        "created": plan.created,
        "updated": plan.updated,
        "unchanged": plan.unchanged,
        "removed": plan.removed,
        "left_out": [{"xid": xid, "reason": why} for xid, why in generated.left_out.items()],
    }
    if check:
        document["stale"] = [{"path": path, "reason": reason} for path, reason in plan.stale]
    return document
