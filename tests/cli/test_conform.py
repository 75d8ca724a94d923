"""``signalbook conform`` against a server in another process."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from xml.etree import ElementTree

import httpx
import pytest
from tests.cli.conftest import Cli
from tests.serving import serving_answers

from signalbook.values import parse_json


def test_reading(cli: Cli, server: str) -> None:
    """The kit writes nothing without permission."""
    ran = cli("conform", server, "--only", "capabilities,R53")
    assert (ran.code, "capabilities: " in ran.out) == (0, True)
    assert "writes (--tier write)" in ran.out
    assert f"{server} conforms" in ran.out


def test_writing(cli: Cli, server: str) -> None:
    ran = cli("conform", server, "--tier", "write", "--only", "entities-group-create, R255")
    assert (ran.code, "entities: 1 passed" in ran.out) == (0, True)
    assert "needs types of the kit's own (--allow-model-changes)" in ran.out


def test_files(cli: Cli, server: str, tmp_path: Path) -> None:
    """The model is changed with leave, and put back."""
    options = ("--allow-model-changes", "--exact-titles", "--only", "samples", "--header", "X-Any: thing")
    files = ("--json", tmp_path / "r.json", "--junit", tmp_path / "r.xml", "--scoreboard", tmp_path / "r.md")
    ran = cli("conform", f"{server}/", *options, *files)
    assert ran.code == 0, ran.out
    assert parse_json((tmp_path / "r.json").read_bytes())["totals"]["MUST"] == {"passed": 30, "failed": 0, "skipped": 0}
    assert ElementTree.fromstring((tmp_path / "r.xml").read_bytes()).get("tests") == "30"
    assert "| R224 | passed | `samples-create-by-put`" in (tmp_path / "r.md").read_text()
    assert "kitdirs" not in cli("export", "--server", server).out
    assert list(tmp_path.glob("*before*")) == []


@pytest.fixture
def careless(server: str) -> Iterator[str]:
    """A way to the server on which 400 becomes 200, as if it took everything, and capabilities are never replaced."""

    def relay(request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        method = "GET" if request.requestline.startswith("PUT /capabilities ") else request.command
        sent = {name: value for name, value in request.headers.items() if name.lower() != "connection"}
        answer = httpx.request(method, server + request.path, headers=sent, content=body, timeout=60)
        of_connection = ("content-encoding", "content-length", "transfer-encoding", "connection")
        headers = {name: value for name, value in answer.headers.items() if name not in of_connection}
        return (200, headers, b"{}") if answer.status_code == 400 else (answer.status_code, headers, answer.content)

    with serving_answers(relay) as url:
        yield url


def test_failing_server_is_reported(cli: Cli, careless: str, tmp_path: Path) -> None:
    """The failing exchange is shown; what is known does not count."""
    server = careless
    only = ("--allow-model-changes", "--only", "model-enum-on-scalars")
    ran = cli("conform", server, *only)
    assert (ran.code, "FAILED model-enum-on-scalars (MUST; R80)" in ran.out) == (1, True)
    assert "status: expected model_error (4xx), got 200" in ran.out
    assert "> PUT /modelsource" in ran.out
    assert "< 200" in ran.out
    known = tmp_path / "known.yaml"
    known.write_text("model-enum-on-scalars: on purpose\n")
    ran = cli("conform", server, *only, "--known", known)
    assert (ran.code, "known: on purpose" in ran.out) == (0, True)
    assert "fails only what is known to fail" in ran.out
    known.write_text("documents-exact-bytes: long mended\n")
    only = ("--allow-model-changes", "--only", "documents-exact-bytes")
    errors = cli("conform", server, *only, "--known", known).err
    assert "documents-exact-bytes: passed, though it is known to fail" in errors


@pytest.mark.parametrize("stop", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.merge)])
def test_interrupted(server: str, tmp_path: Path, stop: signal.Signals) -> None:
    """Ctrl-C ends with everything put back and a report of what was done."""
    report = tmp_path / "r.json"
    command = (sys.executable, "-m", "signalbook", "conform", server, "--allow-model-changes", "--json", str(report))

    def changes() -> int:
        """The number of changes that were ever made."""
        links = httpx.get(f"{server}/events?limit=1", timeout=60).links
        return int(httpx.URL(links["last"]["url"]).params["after"])

    begin, deadline = changes(), time.monotonic() + 300
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        while changes() < begin + 20:  # not all of the first case
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert "kitdirs" in httpx.get(f"{server}/modelsource", timeout=60).text
        assert list(tmp_path.glob("r.before-*.json"))
        running.send_signal(stop)
        out, err = running.communicate(timeout=300)
    assert running.returncode == 130, err
    assert "the run was interrupted" in out
    cases = parse_json(report.read_bytes())["cases"]
    assert cases[0]["outcome"] == "passed"
    assert cases[-1]["reason"] == "the run was interrupted"
    assert "kitdirs" not in httpx.get(f"{server}/modelsource", timeout=60).text
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_failed_restore_is_reported(cli: Cli, server: str, careless: str, tmp_path: Path) -> None:
    """The server breaks its promise about the capabilities: said loudly, with what was there and how to put it back."""
    capabilities = httpx.get(f"{server}/capabilities", timeout=60).json()
    only = ("--allow-lockout", "--only", "capabilities-patch-names-some", "--json", tmp_path / "r.json")
    ran = cli("conform", careless, *only)
    httpx.put(f"{server}/capabilities", json=capabilities, timeout=60).raise_for_status()
    assert ran.code == 1
    assert "NOT PUT BACK: capabilities could not be put back: the server says it did, and shows others" in ran.err
    (before,) = tmp_path.glob("r.before-*.json")
    assert f"jq .capabilities {before} | curl -X PUT" in ran.err
    assert parse_json((tmp_path / "r.json").read_bytes())["unrestored"]


def test_help_shows_the_options_of_the_kit(cli: Cli) -> None:
    ran = cli("conform", "--help")
    assert (ran.code, "Usage: signalbook conform" in ran.out, "--allow-lockout" in ran.out) == (0, True, True)


def test_without_the_kit(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else works, and the command names what is missing."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "xregistry_conformance"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert cli("--help").code == 0
    ran = cli("conform", "http://127.0.0.1:9", "--tier", "read")
    message = "error: this command needs the conformance kit: pip install ./conformance in a clone of Signalbook\n"
    assert (ran.code, ran.err) == (1, message)


def test_list(cli: Cli) -> None:
    ran = cli("conform", "--list", "--only", "R142")
    assert ran.code == 0
    assert "http-put-replaces  MUST write  R142  PUT removes what is not in it" in ran.out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("http://127.0.0.1:9",), 1, "GET /model"),
        (("ftp://nowhere",), 1, "is no URL of a registry"),
        ((), 2, "name the URL of a server"),
        (("http://x", "--only", "nonsense"), 2, "no requirement, topic or case"),
        (("http://x", "--header", "nonsense"), 2, "is no header"),
        (("http://x", "--known", "missing.yaml"), 1, "missing.yaml"),
        (("http://x", "--json", "nowhere/r.json"), 2, "there is no folder nowhere"),
    ],
)
def test_invalid_options_are_rejected(cli: Cli, arguments: tuple[str, ...], code: int, message: str) -> None:
    assert cli("conform", *arguments).ended(code, message)
