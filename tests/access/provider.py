"""A real OpenID Connect issuer (npm oidc-provider) in a process of its own, and a browser that logs in at it."""

import base64
import hashlib
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import pytest
from tests.serving import kept_port

AUDIENCE: Final = "urn:signalbook:registry"
_INSTALLED: Final = Path(__file__).parent.parent.parent / ".venv" / "brokers" / "oidc"
_PROGRAM: Final = Path(__file__).parent / "provider.mjs"
_CALLBACK: Final = "http://127.0.0.1/callback"
_FORM: Final = re.compile(r"<form([^>]*)>(.*?)</form>", re.DOTALL)
_FIELD: Final = re.compile(r"<input([^>]*)>")
_VERIFIER: Final = "v" * 50


class Provider:
    """The issuer at ``url``: clients ``machine``, with a secret, ``cli``, without one, and for logins to a registry
    ``explorer``, with a secret, and ``explorer-public``; users ann and eve."""

    def __init__(self, url: str, process: subprocess.Popen[str]) -> None:
        self.url = url
        self._process = process

    def machine_token(self, audience: str = AUDIENCE) -> str:
        form = {"grant_type": "client_credentials", "resource": audience}
        answer = httpx.post(f"{self.url}/token", data=form, auth=("machine", "machine's secret"), timeout=60)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    def code_flow(self, user: str) -> tuple[str, httpx.Response]:
        """Log in with the code flow and PKCE. Return the token and the response to a second use of the code."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(_VERIFIER.encode()).digest()).decode().rstrip("=")
        query = {"client_id": "cli", "response_type": "code", "scope": "openid", "redirect_uri": _CALLBACK}
        query |= {"resource": AUDIENCE, "code_challenge": challenge, "code_challenge_method": "S256"}
        end = Browser(user).visit(str(httpx.URL(f"{self.url}/auth", params=query)))
        code = parse_qs(urlsplit(end).query)["code"][0]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": _CALLBACK, "client_id": "cli"}
        form |= {"code_verifier": _VERIFIER, "resource": AUDIENCE}
        first, second = (httpx.post(f"{self.url}/token", data=form, timeout=60) for _ in range(2))
        assert first.status_code == 200, first.text
        return str(first.json()["access_token"]), second

    def rotate(self) -> None:
        """Replace the keys; the issuer forgets all grants."""
        self._do("rotate")

    def set_lifetime(self, seconds: int) -> None:
        """Make the next access tokens of users expire after `seconds`."""
        self._do(f"lifetime {seconds}")

    def let_in(self, root: str) -> None:
        """Allow logins to the explorer of the registry at ``root``. The issuer forgets all grants."""
        self._do(f"explorer {root}")

    def _do(self, command: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        while (line := self._process.stdout.readline()) != "done\n":  # notices
            assert line, "the issuer ended"


class Browser:
    """Somebody who fills in every form as ``user``."""

    def __init__(self, user: str) -> None:
        self._values = {"login": user, "password": "any"}

    def visit(self, url: str) -> str:
        """Go on from ``url`` until there is nothing more to fill in or to follow: the text of the last page, or where
        it calls back."""
        with httpx.Client(timeout=60) as http:
            return self._visit(http, url)

    def _visit(self, http: httpx.Client, url: str) -> str:
        response = http.get(url)
        for _ in range(20):
            if response.is_redirect:
                url = urljoin(str(response.url), response.headers["Location"])
                if urlsplit(url).path.endswith("/callback"):
                    return url
                response = http.get(url)
                continue
            form_match = _FORM.search(response.text)
            if form_match is None or ("user_code" not in form_match[0] and "prompt" not in form_match[0]):
                return response.text
            action = urljoin(str(response.url), unescape(_attribute(form_match[1], "action") or ""))
            fields = [field[1] for field in _FIELD.finditer(form_match[2])]
            form = {
                name: unescape(_attribute(field, "value") or "")
                for field in fields
                if (name := _attribute(field, "name"))
            }
            response = http.post(action, data={**form, **{k: v for k, v in self._values.items() if k in form}})
        raise AssertionError("this does not end")


def _attribute(text: str, name: str) -> str | None:
    match = re.search(rf'{name}="([^"]*)"', text)
    return match[1] if match else None


@contextmanager
def provider() -> Iterator[Provider]:
    """Run the OpenID Connect provider; fail if the set-up has not installed it."""
    if not (_INSTALLED / "node_modules").is_dir():
        pytest.fail("the tests need an OpenID Connect issuer: tools/setup test installs it", pytrace=False)
    with kept_port() as port:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        command = ["node", str(_PROGRAM), str(port), AUDIENCE]
        with subprocess.Popen(command, cwd=_INSTALLED, text=True, **pipes) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                yield Provider(f"http://127.0.0.1:{port}", process)
            finally:
                process.kill()
