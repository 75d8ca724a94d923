"""Pages that walk a reader through commands: every command is run, every output compared with the page."""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serving import BIN, kept_port, serving

pytestmark = pytest.mark.merge

ROOT = Path(__file__).parents[1]
SHOWN = "http://127.0.0.1:8080"
SECOND = "http://127.0.0.1:8081"
SINK = "127.0.0.1:9000"
ELISION = "…"


def steps(page: str) -> Iterator[tuple[str, str]]:
    """Commands of the page's ``console`` blocks, each with the output shown beneath it."""
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        yield from re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)


def matches(expected: str, actual: str) -> bool:
    """Return True if the output matches: ``…`` matches anything, and white space is ignored."""

    def packed(text: str) -> str:
        return re.sub(r"\s+", "", text)

    pattern = ".*".join(re.escape(packed(part)) for part in expected.split(ELISION))
    return re.fullmatch(pattern, packed(actual), re.DOTALL) is not None


PAGES = {
    "access.md": (),
    "custom-model.md": ("--model", "empty", "--db", "sqlite:///teams.db"),
    "checking.md": (),
    "coming-from.md": (),
    "confluent.md": (),
    "dead-letters.md": (),
    "inference.md": (),
    "events.md": (),
    "generate.md": (),
    "message-catalog.md": (),
    "producing.md": (),
    "replication.md": ("--allow-sinks", "127.0.0.1:9000"),
    "schema-registry.md": (),
    "subscriptions.md": ("--allow-sinks", "127.0.0.1:9000"),
}
"""Pages, with the options of the server they speak of."""


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest) -> str:
    """The name of each page."""
    return str(request.param)


@pytest.fixture
def sink(tmp_path: Path, page: str) -> Iterator[str]:
    """Yield the address of the sink of the page, if it has one."""
    with kept_port() as port:
        place = f"127.0.0.1:{port}"
        if SINK not in PAGES[page]:
            yield place
            return
        command = [sys.executable, str(ROOT / "examples" / "subscriptions" / "sink.py"), str(port)]
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
            try:
                while not _listens(port):
                    assert process.poll() is None, "the sink ended"
                yield place
            finally:
                process.terminate()


@pytest.fixture
def server(tmp_path: Path, page: str, sink: str) -> Iterator[str]:
    """The page's registry, new, in the working folder of the commands."""
    with serving(tmp_path, *(option.replace(SINK, sink) for option in PAGES[page])) as url:
        yield url


@pytest.fixture
def second(tmp_path: Path, page: str, server: str) -> Iterator[str]:
    """The other registry of a page about two; it may follow the first."""
    if page not in ("confluent.md", "replication.md"):
        yield SECOND
        return
    options = ("--follow", server) if page == "replication.md" else ()
    with serving(tmp_path, "--db", "sqlite:///second.db", *options) as url:
        yield url


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except OSError:
        time.sleep(0.05)
        return False
    return True


def test_documented_commands_work(server: str, second: str, sink: str, tmp_path: Path, page: str) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environ = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1", "COLUMNS": "200"}
    walked = list(steps((ROOT / "docs" / page).read_text(encoding="utf-8")))
    assert len(walked) > 4
    for command, expected in walked:
        line = command.replace(SHOWN, server).replace(SECOND, second).replace(SINK, sink)
        ran = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=1800
        )
        actual = (ran.stdout + ran.stderr).replace(server, SHOWN).replace(second, SECOND).replace(sink, SINK)
        assert ran.returncode == 0, (command, actual)
        assert matches(expected, actual), (command, expected, actual)


@pytest.mark.parametrize(
    ("page_name", "example"),
    [("coming-from.md", "dataframes/from_json.py"), ("subscriptions.md", "subscriptions/sink.py")],
)
def test_code_of_the_page_is_the_example(page_name: str, example: str) -> None:
    text = (ROOT / "docs" / page_name).read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert code == (ROOT / "examples" / example).read_text(encoding="utf-8")
