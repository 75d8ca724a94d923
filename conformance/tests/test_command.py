"""``xregistry-conformance`` without Signalbook: credentials, errors, files."""

import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from xregistry_conformance import command
from xregistry_conformance.values import parse_json


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[httpx.Request]:
    """The requests to a server that is a registry without a model."""
    received: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        received.append(request)
        return httpx.Response(200, json={})

    client = httpx.Client

    def connect(**settings: object) -> httpx.Client:
        settings["transport"] = httpx.MockTransport(answer)
        build: Callable[..., httpx.Client] = client
        return build(**settings)

    monkeypatch.setattr(httpx, "Client", connect)
    return received


@pytest.mark.parametrize(
    ("arguments", "authorization"),
    [
        (["http://kit.example"], None),
        (["http://me:p%40ss@kit.example"], "Basic bWU6cEBzcw=="),
        (["http://me:p@kit.example", "--header", "authorization: Bearer t"], "Bearer t"),
    ],
)
def test_credentials(
    requests: list[httpx.Request], tmp_path: Path, arguments: list[str], authorization: str | None
) -> None:
    report = tmp_path / "r.json"
    ran = CliRunner().invoke(command.app, [*arguments, "--only", "http-head", "--json", str(report)])
    assert ran.exit_code == 0
    assert {request.headers.get("authorization") for request in requests} == {authorization}
    assert {str(request.url).partition("/model")[0].rstrip("/") for request in requests[:1]} == {"http://kit.example"}
    assert parse_json(report.read_bytes())["url"] == "http://kit.example"
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_an_error_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["xregistry-conformance", "http://127.0.0.1:9"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    error = capsys.readouterr().err
    assert (ended.value.code, error.count("\n")) == (1, 1)
    assert error.startswith("error: GET /model: ")
