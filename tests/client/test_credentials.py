"""Where credentials come from, and to whom they are sent."""

import json
import os
import time
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from tests.serving import serving_answers

from signalbook.client import Client, ClientError, Refused
from signalbook.client import login as logins
from signalbook.client.credentials import find, read_secret
from signalbook.client.login import IssuedTokens, StoredLogin, credentials_file

URL = "https://r.example/registry"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide the credentials of the user who runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SIGNALBOOK_TOKEN", raising=False)
    return tmp_path


def sent(base_url: str, token: str | None = None, *, to: str = URL) -> str | None:
    auth = find(base_url, token)
    if auth is None:
        return None
    request = next(auth.auth_flow(httpx.Request("GET", to)))
    header: str | None = request.headers.get("Authorization")
    return header


def basic(text: str) -> str:
    return f"Basic {b64encode(text.encode()).decode()}"


def test_first_available_credentials_are_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sent(URL) is None
    keep(access="from.a.login")
    assert sent(URL) == sent(URL, "") == "Bearer from.a.login"
    monkeypatch.setenv("SIGNALBOOK_TOKEN", "environment")
    assert sent(URL) == "Bearer environment"
    assert sent(URL, "") == "Bearer from.a.login"
    assert sent(URL, "given") == "Bearer given"
    assert sent("https://u:p%40@r.example/registry", "given") == basic("u:p@")


def test_secrets_are_read_from_variables_and_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = home / "token"
    file.write_text("from a file\n".replace(" ", "-"))
    monkeypatch.setenv("MINE", "from-a-variable")
    monkeypatch.setenv("FILE", f"file:{file}")
    assert sent(URL, "${MINE}") == "Bearer from-a-variable"
    assert sent(URL, f"file:{file}") == sent(URL, "${FILE}") == "Bearer from-a-file"
    assert sent("https://${MINE}@r.example/registry") == "Bearer from-a-variable"
    assert sent("https://${FILE}@r.example/registry") == "Bearer from-a-file"
    assert sent("https://id:${MINE}@r.example/registry") == basic("id:from-a-variable")
    assert sent("https://id@r.example/registry") == basic("id:")
    monkeypatch.setenv("SIGNALBOOK_TOKEN", f"file:{file}")
    auth = find(URL, None)
    assert auth is not None
    file.write_text("renewed")
    assert next(auth.auth_flow(httpx.Request("GET", URL))).headers["Authorization"] == "Bearer renewed"


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("${GONE}", "GONE is not set"),
        ("file:/gone/token", "cannot read the secret in /gone/token"),
        ("file:/dev/null", "has no secret"),
        ("two words", "characters that no token has"),
        ("zoë", "characters that no token has"),
        ("line\nbreak", "characters that no token has"),
    ],
)
def test_invalid_token_is_rejected(token: str, message: str) -> None:
    with pytest.raises(ClientError, match=message) as error:
        sent(URL, token)
    assert "words" not in str(error.value)


@pytest.mark.parametrize(
    "to",
    ["https://other.example/registry", "http://r.example/registry", "https://r.example:444/", "https://x.r.example/"],
)
def test_credentials_are_sent_to_their_registry_only(to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keep()
    monkeypatch.setenv("SIGNALBOOK_TOKEN", "t")
    for url, token in ((URL, None), (URL, ""), (URL, "t"), ("https://u:p@r.example/registry", None)):
        assert sent(url, token) is not None
        assert sent(url, token, to="https://r.example:443/other") is not None
        assert sent(url, token, to=to) is None
    assert sent(to, "") is None


# A server, a second one, and an issuer


class Site:
    """A server that keeps what it is asked, and answers what a test says."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[tuple[str, str | None, dict[str, list[str]]]] = []
        self.answers: dict[str, tuple[int, dict[str, str], Any]] = {}

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        self.asked.append((request.path, request.headers.get("Authorization"), parse_qs(body.decode())))
        status, headers, answer = self.answers.get(request.path, (404, {}, {}))
        return status, headers, json.dumps(answer.pop(0) if isinstance(answer, list) else answer).encode()


@pytest.fixture
def sites() -> Iterator[tuple[Site, Site]]:
    first_site, other = Site(), Site()
    with serving_answers(first_site.answer) as first_site.url, serving_answers(other.answer) as other.url:
        yield first_site, other


def test_credentials_are_not_sent_to_redirect_targets(sites: tuple[Site, Site]) -> None:
    first_site, other = sites
    first_site.answers["/x"] = (302, {"Location": f"{other.url}/x"}, {})
    first_site.answers["/pipelines"] = (200, {"Link": f"<{other.url}/more>; rel=next"}, [[]])
    with Client(first_site.url, token="secret") as client:
        for ask in (lambda: client.get("/x"), lambda: list(client.pipelines)):
            with pytest.raises(ClientError):
                ask()
    assert {header for _, header, _ in first_site.asked} == {"Bearer secret"}
    assert other.asked == []


@pytest.mark.parametrize(
    ("challenge", "token", "advice", "login"),
    [
        ('Bearer resource_metadata="https://r.example/m"', None, "--token", True),
        ("Bearer", None, "--token", False),
        ('Bearer resource_metadata="https://r.example/m"', "", "before the host in its URL", False),
    ],
)
def test_missing_credentials_are_explained(
    sites: tuple[Site, Site], challenge: str, token: str | None, advice: str, login: bool
) -> None:
    """Only what works there: a login where there is an issuer, and the URL alone for what runs by itself."""
    body = {"title": "Unauthorized", "detail": "the token has expired (exp)"}
    sites[0].answers["/"] = (401, {"WWW-Authenticate": challenge}, body)
    with Client(sites[0].url, token=token) as client, pytest.raises(Refused) as error:
        client.get("/")
    assert error.value.status == 401
    assert "expired (exp)" in str(error.value)
    assert advice in str(error.value)
    assert ("signalbook login" in str(error.value)) is login


def keep(url: str = URL, **more: Any) -> None:
    """A login in the file."""
    members = {"issuer": "https://i.example", "client": "cli", "endpoint": "https://i.example/token", "access": "a.b.c"}
    tokens = IssuedTokens(**{**members, "refresh": "again", "expires": time.time() + 100, **more})
    with logins._lock_credentials():
        logins._write_logins({**logins._read_logins(), url: tokens})


def test_a_login_is_for_its_owner_and_its_registry() -> None:
    os.umask(os.umask(0))
    keep()
    assert credentials_file().stat().st_mode & 0o777 == 0o600
    assert credentials_file().parent.stat().st_mode & 0o077 == 0
    assert StoredLogin.of("HTTPS://R.example/registry/") is not None
    assert StoredLogin.of("https://r.example/") is None
    credentials_file().chmod(0o644)
    with pytest.raises(ClientError, match="chmod 600"):
        StoredLogin.of(URL)
    credentials_file().chmod(0o600)
    credentials_file().write_text("[")
    with pytest.raises(ClientError, match="log in again") as error:
        StoredLogin.of(URL)
    assert "a.b.c" not in str(error.value)


def test_a_login_is_renewed_once(sites: tuple[Site, Site]) -> None:
    issuer, _ = sites
    keep(endpoint=f"{issuer.url}/token", expires=0.0)
    issuer.answers["/token"] = (200, {}, {"access_token": "n.e.w", "refresh_token": "next", "expires_in": 600})
    two = [StoredLogin.of(URL), StoredLogin.of(URL)]
    assert [login.token() for login in two if login is not None] == ["n.e.w"] * 2
    assert [form["refresh_token"] for _, _, form in issuer.asked] == [["again"]]
    stored = json.loads(credentials_file().read_text())[URL]
    assert (stored["access"], stored["refresh"]) == ("n.e.w", "next")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((400, {}, {"error": "invalid_grant"}), "has ended .invalid_grant.: signalbook login"),
        ((500, {}, []), "has ended"),
        ((200, {}, {"access_token": "opaque"}), "opaque access token"),
        ((200, {}, {}), "no access token"),
    ],
)
def test_login_that_cannot_be_renewed_is_an_error(sites: tuple[Site, Site], answer: Any, message: str) -> None:
    sites[0].answers["/token"] = answer if answer[2] != [] else (500, {}, {})
    keep(endpoint=f"{sites[0].url}/token", expires=0.0)
    login = StoredLogin.of(URL)
    assert login is not None
    with pytest.raises(ClientError, match=message):
        login.token()
    keep(refresh="", expires=0.0)
    with pytest.raises(ClientError, match="expired"):
        StoredLogin.of(URL).token()  # type: ignore[union-attr]


def site_with_login(registry: Site, issuer: Site, /, **more: Any) -> None:
    metadata = {"authorization_servers": [issuer.url], "signalbook_client_id": "cli", "signalbook_scope": "openid x"}
    resource_metadata = {"signalbook_audience": ["urn:a", f"{registry.url}/"], "resource": registry.url}
    registry.answers["/.well-known/oauth-protected-resource"] = (200, {}, {**metadata, **resource_metadata})
    about = {"issuer": issuer.url, "token_endpoint": f"{issuer.url}/t"}
    about["device_authorization_endpoint"] = f"{issuer.url}/d"
    issuer.answers["/.well-known/openid-configuration"] = (200, {}, {**about, **more})
    begun = {"device_code": "d", "user_code": "U-C", "verification_uri": f"{issuer.url}/v", "interval": 0.01}
    issuer.answers["/d"] = (200, {}, begun)


def test_the_device_flow(sites: tuple[Site, Site]) -> None:
    """The device flow with a real issuer is tested in tests/access/test_provider.py."""
    registry, issuer = sites
    site_with_login(registry, issuer)
    issuer.answers["/t"] = (200, {}, {"access_token": "a.b.c", "expires_in": 600})
    prompts: list[tuple[str, ...]] = []
    assert logins.log_in(f"{registry.url}/", lambda *arguments: prompts.append(arguments)) == issuer.url
    assert prompts == [(issuer.url, f"{registry.url}/", f"{issuer.url}/v", "U-C")]
    forms = {path: form for path, _, form in issuer.asked}
    assert forms["/d"] == {"client_id": ["cli"], "scope": ["openid x"], "resource": [f"{registry.url}/"]}
    assert forms["/t"]["device_code"] == ["d"]
    assert sent(registry.url, to=f"{registry.url}/x") == "Bearer a.b.c"
    assert logins.log_out(registry.url)
    assert not logins.log_out(registry.url)


@pytest.mark.parametrize(
    ("more", "answer", "message"),
    [
        ({"issuer": "https://other.example"}, {}, "another issuer"),
        ({"token_endpoint": "http://i.example/t"}, {}, "no token endpoint to be reached by https"),
        ({"device_authorization_endpoint": None}, {}, "no device authorization endpoint"),
        ({}, {"error": "access_denied", "error_description": "no\x1b[2J"}, "no .2J"),
        ({}, {"error": "expired_token"}, "expired_token"),
    ],
)
def test_failed_login_is_an_error(sites: tuple[Site, Site], more: Any, answer: Any, message: str) -> None:
    registry, issuer = sites
    site_with_login(registry, issuer, **more)
    issuer.answers["/t"] = (400, {}, answer)
    with pytest.raises(ClientError, match=message):
        logins.log_in(registry.url, lambda *_: None)
    assert not credentials_file().exists()


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"resource": "https://bank.example"}, "says that it is https://bank.example"),
        ({}, "says that it is None"),
        ({"signalbook_audience": ["https://bank.example/api"]}, "another server"),
        ({"signalbook_audience": ["urn:a", "http://127.0.0.1:1"]}, "another server"),
    ],
)
def test_server_cannot_request_tokens_for_another_registry(
    sites: tuple[Site, Site], members: Any, message: str
) -> None:
    """A hostile server could use the tokens at another registry."""
    registry, issuer = sites
    site_with_login(registry, issuer)
    path = "/.well-known/oauth-protected-resource"
    metadata = registry.answers[path][2] if members else {**registry.answers[path][2], "resource": None}
    registry.answers[path] = (200, {}, {**metadata, **members})
    with pytest.raises(ClientError, match=message):
        logins.log_in(registry.url, lambda *_: None)
    assert issuer.asked == []


def test_login_without_an_issuer_is_an_error(sites: tuple[Site, Site]) -> None:
    with pytest.raises(ClientError, match="it answers 404"):
        logins.log_in(sites[0].url, lambda *_: None)
    with pytest.raises(ClientError, match="use https"):
        logins.log_in("http://r.example", lambda *_: None)


def test_a_reference_is_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A", "${B}")
    assert read_secret("${A}") == "${B}"
    assert read_secret("x${A}") == "x${A}"
