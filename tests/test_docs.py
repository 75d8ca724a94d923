"""The documentation against the code: nothing missing, nothing that does not work."""

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from importlib.metadata import entry_points
from pathlib import Path
from typing import get_args

import pytest
from tests.serving import BIN, serving
from typer.main import get_command

from signalbook import __version__, metrics, settings
from signalbook.api.metrics import collect_registry_state
from signalbook.api.registrypaths import NAMES
from signalbook.cli.app import app
from signalbook.cli.pipeline import TableFormat
from signalbook.cli.serve import PANELS
from signalbook.events.delivery.deliveries import sink_policy
from signalbook.pipeline.sources import base as sources
from signalbook.replication.following import Peer
from signalbook.server import build
from signalbook.storage import open_store
from xregistry_conformance import command as conformance

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("conformance/*.md"), *DOCS.rglob("*.md"), *ROOT.glob("examples/**/*.md")]
)
SOURCE = ROOT / "src" / "signalbook"


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_readme_is_short() -> None:
    assert len(text("README.md").split()) < 600


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("field", fields(settings.Settings), ids=lambda field: str(field.name))
def test_every_setting_has_its_row(field: object) -> None:
    name = str(getattr(field, "name", ""))
    default = getattr(settings.Settings(), name)
    default = ",".join(default) if isinstance(default, tuple) else default
    default_cell = f"`{default}`" if default != "" else ""
    row = f"| `{name}` | {default_cell} | {settings.help_for(name)} |"
    assert row in text("docs/settings.md").splitlines()


def test_settings_are_documented_in_the_panels_of_the_help() -> None:
    documented = {}
    for section in text("docs/settings.md").split("\n## ")[2:]:
        documented[section.partition("\n")[0]] = re.findall(r"^\| `(\w+)`", section, re.MULTILINE)
    assert documented == {panel: names.split() for panel, names in PANELS.items()}


def test_only_documented_options_differ_from_their_setting() -> None:
    other = [name for name in settings.names() if settings.option_for(name) != f"--{name.replace('_', '-')}"]
    assert [(name, settings.option_for(name)) for name in other] == [("from_folder", "--from")]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command with its options."""
    pending = [("signalbook", get_command(app)), ("signalbook conform", get_command(conformance.app))]
    while pending:
        name, command = pending.pop()
        members = getattr(command, "commands", {})
        pending += [(f"{name} {member}", below) for member, below in members.items()]
        if not members:
            yield name, [option for parameter in command.params for option in parameter.opts if option.startswith("-")]


@pytest.mark.parametrize(("command", "options"), list(commands()))
def test_every_command_and_option_is_explained(command: str, options: list[str]) -> None:
    section = text("docs/cli.md").partition(f"\n## {command}\n")[2].partition("\n## ")[0]
    assert section, f"docs/cli.md has no section {command}"
    if command == "signalbook serve":
        options = sorted({*options} - set(map(settings.option_for, settings.names())))
    for option in options:
        if option not in ("--help", "-h", "--token"):  # which the page explains for all of them, at its beginning
            assert option in section, f"{command} {option}"


def servers() -> set[str]:
    """The options of every server that a page has the reader start."""
    lines = re.findall(r"^ *signalbook serve ([^\[\n]+)$", "\n".join(map(Path.read_text, PAGES)), re.MULTILINE)
    return {line.partition("#  ")[0].strip() for line in lines}


@pytest.mark.parametrize("options", sorted(servers()))
def test_documented_server_options_are_valid(options: str) -> None:
    names = {settings.option_for(name): name for name in settings.names()}
    words = shlex.split(options, comments=True)
    values_by_name: dict[str, list[str]] = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        values_by_name.setdefault(names[option], []).append(value)
    several = [name for name in values_by_name if isinstance(getattr(settings.Settings, name), tuple)]
    loaded = settings.load({name: value if name in several else value[0] for name, value in values_by_name.items()})
    assert sink_policy(loaded)
    assert [Peer.parse(source) for source in loaded.follow] or "follow" not in values_by_name


def test_every_choice_is_explained() -> None:
    for choice in (*entry_points(group=sources.GROUP).names, *get_args(TableFormat)):
        assert f"`{choice}`" in text("docs/cli.md")


def test_every_path_is_explained() -> None:
    async def routes() -> set[str]:
        application = build(settings.Settings(db="sqlite://"))
        async with application.router.lifespan_context(application):  # which closes the store behind it
            return {getattr(route, "path", "").replace(":any}", "}") for route in application.routes}

    page = text("docs/api.md")
    for path in (*asyncio.run(routes()), *(f"/{name}" for name in NAMES)):
        assert f"`{path.rstrip('/') or '/'}`" in page


def test_every_package_is_explained() -> None:
    page = text("docs/concepts.md").partition("## Packages")[2]
    packages = {
        path.name + "/" * path.is_dir() for path in SOURCE.iterdir() if not path.name.startswith(("_", "py.typed"))
    }
    assert [name for name in sorted(packages) if f"`{name}`" not in page] == []


def test_every_decision_is_in_the_index() -> None:
    index = text("docs/decisions/README.md")
    for page in sorted((DOCS / "decisions").glob("[0-9]*.md")):
        number, _, title = page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ").partition(" ")
        assert f"- {number} [{title}]({page.name})" in index


def test_every_dependency_has_its_reason() -> None:
    reasons = "\n".join(page.read_text(encoding="utf-8").lower() for page in (DOCS / "decisions").glob("*.md"))
    project = text("pyproject.toml").partition("[project.optional-dependencies]")
    dependencies = project[0].partition("dependencies = [")[2] + project[2].partition("dev = [")[0]
    names = re.findall(r'^\s*"([a-z0-9_-]+)', dependencies, re.MULTILINE)
    assert len(names) > 10
    assert [name for name in names if name not in reasons] == []


def test_the_changelog_has_this_version() -> None:
    assert f"## {__version__}" in text("CHANGELOG.md")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the examples, as someone has who installed the package."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


@pytest.fixture
def url(place: Path) -> Iterator[str]:
    """A registry in that folder."""
    with serving(place) as root:
        yield root


def blocks(page: str, language: str, url: str) -> list[str]:
    code_blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```", text(page), re.MULTILINE | re.DOTALL)
    return [block.replace("http://127.0.0.1:8080", url) for block in code_blocks]


def run(command: list[str], place: Path) -> str:
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    ran = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, f"{command[-1]}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def test_the_quickstart_works(place: Path, url: str) -> None:
    shell = [run(["bash", "-ec", block], place) for block in blocks("docs/quickstart.md", "sh", url)]
    assert "registered /schemagroups/shop.refunds/schemas/Refund/versions/1" in shell[1]
    assert "A customer placed an order." in shell[2]
    assert "5 read = 3 landed + 2 dead letters + 0 dropped" in shell[3]
    (output,) = [run([sys.executable, "-c", block], place) for block in blocks("docs/quickstart.md", "python", url)]
    placed, dead = output.splitlines()
    assert "'order': 'A-1001', 'total': 59.8, 'items': [{" in placed
    assert "total" in dead


def test_the_clients_page_works(place: Path, url: str) -> None:
    (output,) = [run([sys.executable, "-c", block], place) for block in blocks("docs/client.md", "python", url)]
    assert output.splitlines() == [
        "1",
        'b\'{"type": "object"}\'',
        "order 1",
        "not_found /schemagroups/shop/schemas/gone",
    ]


@pytest.mark.merge
def test_the_documents_page_works(place: Path) -> None:
    page = blocks("docs/documents.md", "sh", "")
    folder, protos, lights, hooks, contract, idl, services = (run(["bash", "-ec", block], place) for block in page)
    assert "schemaid: order" in folder
    assert protos.startswith("accepted  protos")
    assert "topic: lights.measured" in lights
    assert "value: order" in hooks
    assert "odcs.unique: id" in contract
    assert "doc: An order that was placed." in idl
    assert "value: https://parcels.example/{depot}" in services


def test_the_producing_page_works(place: Path) -> None:
    (output,) = [run([sys.executable, "-c", block], place) for block in blocks("docs/producing.md", "python", "")]
    assert output.splitlines() == [
        'orders b\'7\' b\'{"order":"A-1","total":5,"items":[{"sku":"pen","count":1}]}\'',
        "data/total minimum",
        "()",
    ]


def test_the_inputs_page_works(place: Path) -> None:
    (script,), (shell,) = blocks("docs/inputs.md", "python", ""), blocks("docs/inputs.md", "sh", "")
    run([sys.executable, "-c", script], place)
    assert "5 read = 3 landed + 2 dead letters + 0 dropped" in run(["bash", "-ec", shell], place)


def metric_names() -> set[str]:
    """Every metric of a server, as Prometheus shows it, without what a histogram adds."""
    with closing(open_store("sqlite://")) as store:
        families = [*metrics.REGISTRY.collect(), *collect_registry_state(store)]
    return {f"{family.name}_total" if family.type == "counter" else family.name for family in families}


def test_operations_page_lists_exactly_the_metrics() -> None:
    documented = re.findall(r"`(signalbook_[a-z_]+)`", text("docs/operations.md").partition("## Monitoring")[2])
    assert metric_names() == {name for name in documented if not name.startswith("signalbook_pipeline_")}
