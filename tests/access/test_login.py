"""The code flow with an issuer that answers as told: what is sent, and every answer that must not log anybody in."""

import base64
import hashlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.access.issuer import AUDIENCE, ED_KEY, FakeIssuer, fake_issuer, raw_token

from signalbook.access import login
from signalbook.access.base import AuthenticationUnavailable, Unauthenticated
from signalbook.access.issuers import TokenVerifier
from signalbook.access.login import LoginAttempt, LoginClient, LoginFailed
from signalbook.access.sessions import LoggedIn
from signalbook.settings import SettingError, Settings, load

CALLBACK = "https://r.example/ui/-/login/callback"
KEY = b"k" * 32


@pytest.fixture
def issuer() -> Iterator[FakeIssuer]:
    with fake_issuer() as fake:
        yield fake


def client(issuer: FakeIssuer, **more: Any) -> LoginClient:
    common = {"oidc_issuers": (issuer.url,), "oidc_audience": (AUDIENCE,), "login_client_id": "us"}
    settings = Settings(**{**common, **more})
    return LoginClient(settings, TokenVerifier(settings))


def finish(
    issuer: FakeIssuer,
    login: LoginClient,
    claims: dict[str, Any] | None = None,
    *,
    access: Any = "opaque",
    **answer: str | None,
) -> LoggedIn:
    """Log in with an ID token of these claims, and an answer to the callback that is right but for ``answer``."""
    _, attempt = login.begin(CALLBACK, "/ui")
    token = issuer.token(**{"aud": "us", "nonce": attempt.nonce, "groups": ["team"], **(claims or {})})
    issuer.granted = (200, {"id_token": token, "access_token": access})
    parameters = {"state": attempt.state, "code": "c0de", **answer}
    return login.finish(attempt, {name: value for name, value in parameters.items() if value is not None}, CALLBACK)


def test_login_begins_with_a_pkce_redirect(issuer: FakeIssuer) -> None:
    where, attempt = client(issuer, login_scope="openid groups").begin(CALLBACK, "/ui/x")
    query = {name: values[0] for name, values in parse_qs(urlsplit(where).query).items()}
    challenge = base64.urlsafe_b64encode(hashlib.sha256(attempt.verifier.encode()).digest()).decode().rstrip("=")
    assert where.startswith(f"{issuer.url}/auth?")
    of_client = {"tenant": "a", "response_type": "code", "client_id": "us", "redirect_uri": CALLBACK}
    of_code = {"code_challenge": challenge, "code_challenge_method": "S256"}
    assert query == {**of_client, "scope": "openid groups", "state": attempt.state, "nonce": attempt.nonce, **of_code}
    assert len({attempt.state, attempt.nonce, attempt.verifier}) == 3
    assert min(map(len, (attempt.state, attempt.nonce, attempt.verifier))) == 43


def test_login_state_is_sealed(issuer: FakeIssuer) -> None:
    _, attempt = client(issuer).begin(CALLBACK, "/ui")
    sealed = attempt.sealed(KEY)
    assert LoginAttempt.opened(sealed, KEY) == attempt
    assert attempt.verifier not in sealed
    # Not at its end, where bits of base64 may stand for nothing.
    changed = sealed[:20] + ("A" if sealed[20] != "A" else "B") + sealed[21:]
    for wrong in (changed, sealed[:20], "", "é", attempt.sealed(b"o" * 32)):
        assert LoginAttempt.opened(wrong, KEY) is None
    assert len(replace(attempt, back="b" * 1000).sealed(KEY)) < 2000, "a cookie takes 4096 bytes"


def test_login_has_the_identity_of_a_bearer_token(issuer: FakeIssuer) -> None:
    who = finish(issuer, client(issuer), {"name": "Ann \u00c4"})
    assert (who.identity.subject, who.identity.groups, who.identity.issuer) == ("ann", frozenset({"team"}), issuer.url)
    bearer = TokenVerifier(Settings(oidc_issuers=(issuer.url,), oidc_audience=(AUDIENCE,)))
    assert who.identity == bearer.verify(issuer.token(groups=["team"])).identity
    assert who.displayname == "Ann \u00c4"
    ((authorization, form),) = issuer.posted
    assert (authorization, form["client_id"], form["redirect_uri"]) == ("", "us", CALLBACK)
    assert len(form["code_verifier"]) == 43


@pytest.mark.parametrize("methods", [None, ["client_secret_post"]])
def test_client_secret_is_sent_by_the_method_of_the_issuer(
    issuer: FakeIssuer, tmp_path: Path, methods: list[str] | None
) -> None:
    if methods:
        issuer.metadata["token_endpoint_auth_methods_supported"] = methods
    (tmp_path / "secret").write_text("a b:c\n")
    finish(issuer, client(issuer, login_client_secret=f"file:{tmp_path / 'secret'}"))
    ((authorization, form),) = issuer.posted
    if methods:
        assert (authorization, form["client_secret"]) == ("", "a b:c")
    else:
        assert base64.b64decode(authorization.removeprefix("Basic ")) == b"us:a+b%3Ac"
        assert "client_secret" not in form


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"nonce": "of another login"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"nonce": ["x"]}, "nonce"),
        ({"aud": "another client"}, "audience"),
        ({"aud": AUDIENCE}, "audience"),
        ({"aud": ["us", "others"]}, "azp"),
        ({"azp": "others"}, "azp"),
        ({"iss": "https://evil.example"}, "issuer"),
        ({"exp": 1}, "expired"),
        ({"sub": ""}, "subject"),
        ({"groups": {"a": "b"}}, "groups"),
        ({"headers": {"typ": "at+jwt"}}, "typ"),
        ({"key": ED_KEY, "algorithm": "EdDSA", "kid": "r1"}, "key"),
    ],
)
def test_id_token_of_another_login_is_rejected(issuer: FakeIssuer, claims: dict[str, Any], why: str) -> None:
    with pytest.raises(Unauthenticated, match=why):
        finish(issuer, client(issuer), claims)


def test_an_unsigned_id_token_counts_for_nothing(issuer: FakeIssuer) -> None:
    login = client(issuer)
    _, attempt = login.begin(CALLBACK, "/ui")
    issuer.granted = (200, {"id_token": raw_token({"alg": "none"}, issuer.claims(aud="us", nonce=attempt.nonce))})
    with pytest.raises(Unauthenticated, match="alg"):
        login.finish(attempt, {"state": attempt.state, "code": "c"}, CALLBACK)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"state": "another"}, "another login"),
        ({"state": ""}, "another login"),
        ({"state": None}, "another login"),
        ({"state": "é"}, "another login"),
        ({"error": "access_denied", "error_description": "no\nway"}, r"access_denied: no way"),
        ({"code": None}, "no code"),
        ({"code": "c" * 5000}, "no code"),
        ({"iss": "https://evil.example"}, "not of the issuer"),
    ],
)
def test_invalid_login_answers_are_rejected(issuer: FakeIssuer, answer: dict[str, Any], why: str) -> None:
    with pytest.raises(LoginFailed, match=why):
        finish(issuer, client(issuer), **answer)
    assert issuer.posted == [], "no code of it is shown to anybody"


def test_issuer_parameter_is_required_if_announced(issuer: FakeIssuer) -> None:
    issuer.metadata["authorization_response_iss_parameter_supported"] = True
    with pytest.raises(LoginFailed, match="not of the issuer"):
        finish(issuer, client(issuer))
    assert finish(issuer, client(issuer), iss=issuer.url).identity.subject == "ann"


def test_a_login_has_its_time(issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    login = client(issuer)
    _, attempt = login.begin(CALLBACK, "/ui")
    monkeypatch.setattr(time, "time", lambda: attempt.expires + 1)
    with pytest.raises(LoginFailed, match="longer than 10 minutes"):
        login.finish(attempt, {"state": attempt.state, "code": "c"}, CALLBACK)


@pytest.mark.parametrize(
    ("granted", "error", "why"),
    [
        ((400, {"error": "invalid_grant"}), LoginFailed, "invalid_grant"),
        ((400, b"<html>"), LoginFailed, "it answers 400"),
        ((302, {"id_token": "x"}), LoginFailed, "refused"),
        ((200, {"access_token": "x"}), LoginFailed, "no ID token"),
        ((200, b"<html>"), AuthenticationUnavailable, "no JSON"),
        ((200, b" " * (2 << 20)), AuthenticationUnavailable, "larger"),
    ],
)
def test_failing_token_endpoint_is_an_error(issuer: FakeIssuer, granted: Any, error: Any, why: str) -> None:
    login = client(issuer)
    _, attempt = login.begin(CALLBACK, "/ui")
    issuer.granted = granted
    with pytest.raises(error, match=why):
        login.finish(attempt, {"state": attempt.state, "code": "c"}, CALLBACK)


def test_groups_come_from_userinfo_if_the_id_token_has_none(issuer: FakeIssuer) -> None:
    issuer.metadata["userinfo_endpoint"] = f"{issuer.url}/userinfo"
    issuer.userinfo = {"sub": "ann", "groups": ["staff"], "email": "ann@example.com"}
    who = finish(issuer, client(issuer), {"groups": None})
    assert (who.identity.groups, who.displayname) == (frozenset({"staff"}), "ann@example.com")


def test_login_without_required_groups_is_rejected(issuer: FakeIssuer) -> None:
    """Rules may deny things to groups: somebody of whom they are unknown must not have more rights."""
    issuer.metadata["userinfo_endpoint"] = f"{issuer.url}/userinfo"
    issuer.userinfo = {"sub": "eve", "groups": []}
    with pytest.raises(Unauthenticated, match="somebody else"):
        finish(issuer, client(issuer), {"groups": None})
    issuer.metadata["userinfo_endpoint"] = f"{issuer.url}/nothing"
    with pytest.raises(AuthenticationUnavailable, match="404"):
        finish(issuer, client(issuer), {"groups": None})
    for nothing in (None, 1, "é"):
        with pytest.raises(LoginFailed, match="access token"):
            finish(issuer, client(issuer), {"groups": None}, access=nothing)


def test_login_without_groups_is_marked(issuer: FakeIssuer) -> None:
    """A login without groups is marked as groupless; the policy decides if that suffices."""
    who = finish(issuer, client(issuer), {"groups": None})
    assert who.groupless
    assert not finish(issuer, client(issuer), {"groups": []}).groupless
    issuer.metadata["userinfo_endpoint"] = f"{issuer.url}/userinfo"
    issuer.userinfo = {"sub": "ann"}
    assert not finish(issuer, client(issuer), {"groups": None}).groupless, "it was asked for all that it says"
    del issuer.metadata["userinfo_endpoint"]
    bearer = TokenVerifier(Settings(oidc_issuers=(issuer.url,), oidc_audience=(AUDIENCE,))).verify(issuer.token())
    assert who.identity == bearer.identity
    issuer.metadata["claims_supported"] = ["sub"]
    (fault,) = client(issuer).faults()
    assert "no UserInfo endpoint and no claim groups" in fault


def test_unavailable_issuer_is_not_called_repeatedly(issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login does not wait for the issuer if another login has just failed to reach it."""
    client_ = client(issuer)
    issuer.away = True
    for _ in range(3):
        with pytest.raises(AuthenticationUnavailable, match="503"):
            client_.begin(CALLBACK, "/ui")
    assert len(issuer.asked) == 1
    monkeypatch.setattr(login, "PAUSE", 0.0)
    issuer.away = False
    assert client_.begin(CALLBACK, "/ui")
    issuer.away = True
    assert client_.begin(CALLBACK, "/ui"), "what it said of itself holds a while"


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint"])
def test_endpoints_without_tls_are_not_used(issuer: FakeIssuer, name: str) -> None:
    issuer.metadata[name] = "http://login.example/auth"
    with pytest.raises(AuthenticationUnavailable, match="https"):
        finish(issuer, client(issuer))


def test_missing_issuer_capabilities_are_reported(issuer: FakeIssuer) -> None:
    assert client(issuer).faults() == ()
    issuer.metadata |= {"code_challenge_methods_supported": ["plain"], "response_types_supported": ["id_token"]}
    issuer.metadata |= {"token_endpoint": "http://login.example/", "scopes_supported": ["openid"]}
    faults = " ".join(client(issuer).faults())
    for word in ("S256", "code flow", "token_endpoint", "scope profile"):
        assert word in faults


def test_logout_url_of_the_issuer(issuer: FakeIssuer) -> None:
    assert client(issuer).logout_url("hint", "https://r.example/ui") == ""
    issuer.metadata["end_session_endpoint"] = f"{issuer.url}/end"
    where = client(issuer).logout_url("hint", "https://r.example/ui")
    page = {"post_logout_redirect_uri": ["https://r.example/ui"]}
    assert parse_qs(urlsplit(where).query) == {"client_id": ["us"], "id_token_hint": ["hint"], **page}


def test_the_example_works(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "access" / "login.toml"
    (tmp_path / "secret").write_text("s")
    text = example.read_text(encoding="utf-8").replace("/etc/signalbook/login-secret", str(tmp_path / "secret"))
    (tmp_path / "signalbook.toml").write_text(text)
    settings = load(environ={}, config=tmp_path / "signalbook.toml")
    assert LoginClient(settings, TokenVerifier(settings)).issuer == "https://login.example.com/realms/staff"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"login": "perhaps"}, "login is one of"),
        ({"session_hours": 0.0}, "session_hours"),
        ({"login_issuer": "https://a.example"}, "login_issuer"),
        ({"login_client_id": "us"}, "login_client_id needs oidc_issuers"),
        ({"login": "issuer"}, "login_client_id"),
        ({"login_client_secret": "file:/nowhere/at/all"}, "cannot read"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], why: str) -> None:
    configuration = Settings(**settings)
    with pytest.raises(SettingError, match=why):
        LoginClient(configuration, TokenVerifier(configuration))
