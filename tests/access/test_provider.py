"""Against a real OpenID Connect issuer: its tokens by every flow, keys that rotate, and ``signalbook login``."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from tests.access.provider import AUDIENCE, Browser, Provider, provider
from tests.serving import serving

from signalbook.access import issuers
from signalbook.access.base import Unauthenticated
from signalbook.access.issuers import TokenVerifier
from signalbook.access.login import LoginClient, LoginFailed
from signalbook.settings import Settings

POLICY = {
    "rules": [
        {"who": ["subject:root"], "role": "administrator"},
        {"who": ["group:team"], "role": "writer"},
        {"who": ["group:machines"], "role": "reader"},
    ]
}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Provider]:
    with provider() as running:
        yield running


def settings(issuer: Provider, **more: float) -> Settings:
    return Settings(oidc_issuers=(issuer.url,), oidc_audience=(AUDIENCE,), **more)  # type: ignore[arg-type]


def test_tokens_by_client_credentials_and_by_code(issuer: Provider) -> None:
    verifier = TokenVerifier(settings(issuer))
    machine = verifier.verify(issuer.machine_token()).identity
    assert (machine.subject, machine.groups, machine.issuer) == ("machine", frozenset({"machines"}), issuer.url)
    token, again = issuer.code_flow("ann")
    person = verifier.verify(token).identity
    assert (person.subject, person.groups) == ("ann", frozenset({"team"}))
    assert again.json()["error"] == "invalid_grant"


@pytest.mark.parametrize(("client", "secret"), [("explorer", "explorer's + secret"), ("explorer-public", "")])
def test_people_log_in_by_the_code_flow(issuer: Provider, client: str, secret: str) -> None:
    """Once with each code, and only with the PKCE verifier that the login began with."""
    configuration = replace(settings(issuer), login_client_id=client, login_client_secret=secret)
    login, callback = LoginClient(configuration, TokenVerifier(configuration)), "http://127.0.0.1/ui/-/login/callback"
    assert login.faults() == ()
    for stolen in (False, True):
        where, attempt = login.begin(callback, "/ui")
        answer = dict(parse_qsl(urlsplit(Browser("ann").visit(where)).query))
        if stolen:
            with pytest.raises(LoginFailed, match="invalid_grant"):
                login.finish(replace(attempt, verifier="v" * 43), answer, callback)
            continue
        who = login.finish(attempt, answer, callback)
        assert (who.identity.subject, who.identity.groups) == ("ann", frozenset({"team"}))
        assert who.displayname == "ann of the team"
        with pytest.raises(LoginFailed, match="invalid_grant"):
            login.finish(attempt, answer, callback)


def test_expired_tokens_and_tokens_for_another_audience_are_rejected(issuer: Provider) -> None:
    verifier = TokenVerifier(settings(issuer, oidc_leeway=0.0))
    with pytest.raises(Unauthenticated, match="audience"):
        verifier.verify(issuer.machine_token("https://other.example"))
    issuer.set_lifetime(1)
    token, _ = issuer.code_flow("ann")
    issuer.set_lifetime(3600)
    with pytest.raises(Unauthenticated, match="expired"):  # noqa: PT012
        while verifier.verify(token):
            time.sleep(0.05)


def test_rotated_keys(issuer: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token by the new key is taken at once, and ends those by the key that was withdrawn."""
    monkeypatch.setattr(issuers, "PAUSE", 0.0)
    verifier = TokenVerifier(settings(issuer))
    old = issuer.machine_token()
    assert verifier.verify(old)
    issuer.rotate()
    assert verifier.verify(issuer.machine_token())
    with pytest.raises(Unauthenticated, match="key that its issuer does not have"):
        verifier.verify(old)


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "signalbook", *arguments]
    environment = {**os.environ, "XDG_CONFIG_HOME": str(home)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def log_in(home: Path, url: str, user: str, issuer: str) -> None:
    """``signalbook login``, and what its user does in a browser meanwhile."""
    environment = {**os.environ, "XDG_CONFIG_HOME": str(home), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "signalbook", "login", url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        assert issuer in process.stderr.readline()
        line = process.stderr.readline()
        match = re.search(r"Open (\S+) in a browser and confirm the code (\S+)", line)
        assert match, line + process.stderr.read()
        assert match[2] in match[1]
        assert "was successful" in Browser(user).visit(match[1])
        assert "Logged in" in process.stderr.read()
    assert process.returncode == 0


@pytest.mark.merge
def test_signalbook_login(issuer: Provider, tmp_path: Path) -> None:
    """Log in with the device flow. Other commands use the token, renew it when it expires, and `logout` deletes it."""
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    options = ("--access-file", "policy.json", "--oidc-issuers", issuer.url, "--oidc-audience", AUDIENCE)
    home = tmp_path / "home"
    with serving(tmp_path, *options, "--oidc-client-id", "cli", "--oidc-leeway", "0") as url:
        refused = run(home, "get", "/schemagroups", "--server", url)
        assert (refused.returncode, "signalbook login" in refused.stderr) == (1, True)
        issuer.set_lifetime(1)
        log_in(home, url, "ann", issuer.url)
        issuer.set_lifetime(3600)
        credentials = home / "signalbook" / "credentials.json"
        assert credentials.stat().st_mode & 0o777 == 0o600
        first = json.loads(credentials.read_text())[url]["access"]
        token = {"Authorization": f"Bearer {first}"}
        while httpx.get(f"{url}/schemagroups", headers=token, timeout=60).status_code == 200:
            time.sleep(0.05)
        assert httpx.get(f"{url}/schemagroups", headers=token, timeout=60).status_code == 401
        renewed = set()
        for _ in range(2):
            result = run(home, "get", "/schemagroups", "--server", url)
            assert result.returncode == 0, result.stderr
            renewed.add(json.loads(credentials.read_text())[url]["access"])
        assert (len(renewed), first in renewed) == (1, False)
        machine = {"Authorization": f"Bearer {issuer.machine_token()}"}
        assert httpx.get(f"{url}/schemagroups", headers=machine, timeout=60).status_code == 200
        assert httpx.put(f"{url}/schemagroups/x", json={}, headers=machine, timeout=60).status_code == 403
        assert run(home, "logout", url).returncode == 0
        assert json.loads(credentials.read_text()) == {}
        assert run(home, "get", "/schemagroups", "--server", url).returncode == 1
        assert run(home, "logout", url).returncode == 1
