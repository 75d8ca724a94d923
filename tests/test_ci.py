"""The recipes for git hooks and CI, followed to the letter in real repositories."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.serving import BIN

pytestmark = pytest.mark.merge

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "examples" / "evolution"
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
PRE_COMMIT = shutil.which("pre-commit", path=f"{BIN}:{os.environ['PATH']}")
DOCUMENT = """{"schemagroups": {"shop": {"schemas": {"order": {"meta": {"compatibility": "backward"},
    "versions": {"1": {"format": "Avro/1.12.0", "schemaurl": "order.avsc"}}}}}}}"""


def blocks(heading: str, language: str) -> list[str]:
    """The code of a section."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


class Repository:
    """A git repository with a schema and a document that names it, and a user who works in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder.with_name(f"{folder.name}-home")
        folder.mkdir()
        self.home.mkdir()
        names = [f"GIT_{role}_{part}" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")]
        self.environment = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "COLUMNS": "200",
            **dict.fromkeys(names, "n@example.org"),
        }
        self.git("init", "-q", "-b", "main")
        self.write("order.avsc")
        (folder / "shop.xreg.json").write_text(DOCUMENT)

    def write(self, example: str) -> None:
        """Change the schema."""
        shutil.copy(EXAMPLES / example, self.folder / "order.avsc")

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """A command in the repository, whatever comes of it."""
        return subprocess.run(
            command, cwd=self.folder, env=self.environment | environment, capture_output=True, text=True, check=False
        )

    def git(self, *arguments: str) -> str:
        """Run git and return its output."""
        result = self.run("git", *arguments)
        assert result.returncode == 0, result.stderr + result.stdout
        return result.stdout.strip()

    def commit(self) -> subprocess.CompletedProcess[str]:
        """Commit what there is, if the hooks let it pass."""
        self.git("add", "-A")
        return self.run("git", "commit", "-m", "change")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "work")


def refused(result: subprocess.CompletedProcess[str]) -> bool:
    """Return True if a command failed, and check that it failed for the expected reason."""
    output = result.stdout + result.stderr
    assert not result.returncode or "default_missing  order.avsc#Order.customer" in output, output
    return bool(result.returncode)


def test_the_hook(repository: Repository) -> None:
    (script,) = blocks("A git hook", "sh")
    assert repository.run("sh", "-ec", script).returncode == 0
    assert not refused(repository.commit()), "the first commit has nothing before it"
    repository.write("order-with-customer.avsc")
    assert refused(repository.commit())
    assert repository.git("rev-list", "--count", "HEAD") == "1"
    repository.write("order-with-note.avsc")
    assert not refused(repository.commit())
    assert repository.git("rev-list", "--count", "HEAD") == "2"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("mv order.avsc purchase.avsc",), ""),
        (("mv order.avsc sub/purchase.avsc", "break"), "default_missing  sub/purchase.avsc#Order.customer"),
        (("rm order.avsc",), "warning  order.avsc"),
    ],
)
def test_renamed_and_deleted_schemas_count(repository: Repository, changes: tuple[str, ...], message: str) -> None:
    (script,) = blocks("A git hook", "sh")
    repository.run("sh", "-ec", script)
    (repository.folder / "shop.xreg.json").unlink()
    (repository.folder / "sub").mkdir()
    assert repository.commit().returncode == 0
    for change in changes:
        if change == "break":
            file = repository.folder / "sub" / "purchase.avsc"
            field = '{"name": "customer", "type": "string"}'
            file.write_text(file.read_text().replace('"fields": [', f'"fields": [{field},'))
        else:
            repository.git(*change.split())
    result = repository.commit()
    assert (result.returncode, message in result.stdout + result.stderr) == (int(bool(message)), True), (
        result.stdout + result.stderr
    )


def test_the_workflow(repository: Repository, tmp_path: Path) -> None:
    """The steps run on a branch that is to be merged; the installation of Signalbook is replaced."""
    (workflow,) = (yaml.safe_load(block) for block in blocks("GitHub Actions", "yaml"))
    (job,) = workflow["jobs"].values()
    assert workflow[True] == "pull_request", "to YAML 1.1 the word on is true"
    assert job["env"] == {"BASE": "origin/${{ github.base_ref }}"}
    assert {"uses": "actions/checkout@v4", "with": {"fetch-depth": 0}} in job["steps"], "older commits are needed"
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    (stubs / "pip").write_text('#!/bin/sh\necho "$@" > "$HOME/pip"\n')
    (stubs / "pip").chmod(0o755)
    environment = {"BASE": "origin/main", "PATH": f"{stubs}:{repository.environment['PATH']}"}
    repository.commit()
    repository.git("remote", "add", "origin", str(repository.folder))
    repository.git("fetch", "-q", "origin")
    repository.git("checkout", "-q", "-b", "feature")
    install, compare = [step["run"] for step in job["steps"] if "run" in step]
    assert repository.run("bash", "-ec", install, **environment).returncode == 0
    assert (repository.home / "pip").read_text().startswith("install ")
    for example, expected in (("order-with-note.avsc", False), ("order-with-customer.avsc", True)):
        repository.write(example)
        repository.commit()
        assert refused(repository.run("bash", "-ec", compare, **environment)) is expected


def test_documented_hook(repository: Repository) -> None:
    (config,) = (yaml.safe_load(block) for block in blocks("pre-commit", "yaml"))
    (hook,) = HOOKS
    assert config["repos"][0]["hooks"] == [{"id": hook["id"]}]
    assert (hook["pass_filenames"], hook["always_run"]) == (False, True), "deleted files trigger nothing by their names"
    repository.commit()
    command = (*hook["entry"].split(), *hook["args"])
    assert repository.run(*command).returncode == 0
    repository.write("order-with-customer.avsc")
    result = repository.run(*command)
    assert result.returncode == 1
    refusals = [line for line in result.stdout.splitlines() if line.startswith("refused")]
    assert refusals == ["refused  order.avsc", "refused  . (1 document)"]
    repository.git("checkout", "-q", "order.avsc")
    (repository.folder / "shop.xreg.json").unlink()
    result = repository.run(*command)
    assert (result.returncode, "shop.xreg.json" in result.stdout) == (1, True), result.stderr


@pytest.mark.skipif(PRE_COMMIT is None, reason="needs pre-commit")
def test_pre_commit_itself(repository: Repository, tmp_path: Path) -> None:
    """The page's configuration and the real program, all but its installation of Signalbook, which takes minutes."""
    offered = Repository(tmp_path / "offered")
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", offered.folder)
    offered.commit()
    config = yaml.safe_load(blocks("pre-commit", "yaml")[0])
    config["repos"][0] |= {"repo": str(offered.folder), "rev": offered.git("rev-parse", "HEAD")}
    for hook in config["repos"][0]["hooks"]:
        hook["language"] = "system"
    (repository.folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    repository.environment["PRE_COMMIT_HOME"] = str(tmp_path / "cache")
    assert repository.run(str(PRE_COMMIT), "install").returncode == 0
    assert not refused(repository.commit()), "the first commit has nothing before it"
    repository.write("order-with-customer.avsc")
    assert refused(repository.commit())
    repository.write("order-with-note.avsc")
    assert not refused(repository.commit())
    assert repository.git("rev-list", "--count", "HEAD") == "2"
