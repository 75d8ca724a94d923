"""Sessions in the explorer: how they begin and end, what counts for them, and everything that must not."""

import re
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest
from tests.access.issuer import FakeIssuer, fake_issuer

from signalbook.access import sessions
from signalbook.access.base import Identity
from signalbook.access.login import LoginClient, LoginFailed
from signalbook.access.sessions import LoggedIn
from signalbook.storage.base import StorageBusy
from signalbook.storage.store import Store
from signalbook.values import now

from ..conftest import ADMINISTRATOR, PROXIED, Client, Serve, bearer, put_policy
from .conftest import Document, parse
from .test_editing import fields
from .test_pages import harmless

ROOT = "https://r.example"
SESSION = "__Host-signalbook-session"
FORM = "__Host-signalbook-form"
NO_ISSUER = "http://127.0.0.1:9"
"""The URL of an issuer that does not answer."""
TEAM = {"who": ["group:team"], "role": "writer", "on": ["/messagegroups/open*"]}
OPEN = {"who": ["anyone"], "role": "reader", "on": ["/messagegroups/open"]}


class Visitor:
    """Somebody with a browser: it keeps cookies, and follows no redirects."""

    def __init__(self, client: Client, cookies: dict[str, str] | None = None) -> None:
        self._client = client
        self.cookies = dict(cookies or {})

    def send(self, method: str, path: str, headers: Any = None, **sent: Any) -> httpx.Response:
        cookie = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        answer = self._client.send(
            method, path, headers={**(cookie if self.cookies else {}), **(headers or {})}, **sent
        )
        for set_cookie in answer.headers.get_list("set-cookie"):
            name, _, value = set_cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
            if "Max-Age=0" in set_cookie:
                del self.cookies[name]
        return answer

    def show(self, path: str, method: str = "GET", **sent: Any) -> Document:
        answer = self.send(method, f"/ui{path}", **sent)
        page = Document(answer.status_code, answer.headers, answer.text, parse(answer.text))
        harmless(page)
        return page

    def log_in(self, secret: str, back: str = "/ui", **changed: str) -> httpx.Response:
        """Log in with an API token."""
        page = self.show(f"/-/login?back={quote(back, safe='')}")
        return self.send("POST", "/ui/-/login", data={**fields(page), "secret": secret, **changed})

    def log_out(self, where: str = "here") -> httpx.Response:
        return self.send("POST", "/ui/-/logout", data={**fields(self.show("/-/identity")), "where": where})


def secret_of(store: Store, *who: str, **more: Any) -> str:
    return bearer(store, *who, **more)["Authorization"].removeprefix("Bearer ")


def login_at(issuer: str) -> dict[str, Any]:
    """Return the settings of a server whose users log in at an issuer."""
    return {"oidc_issuers": (issuer,), "oidc_audience": ("x",), "login_client_id": "us"}


def session_of_ann(store: Store, **identity: Any) -> str:
    """Begin a session without a login, and return the value of its cookie."""
    with store.write() as transaction:
        who = LoggedIn(identity=Identity(subject="ann", **identity))
        return sessions.begin(transaction.sessions, who, now(), 1.0)[1]


@pytest.fixture
def issuer() -> Iterator[FakeIssuer]:
    with fake_issuer() as fake:
        yield fake


@pytest.fixture
def client(store: Store, serve: Serve) -> Client:
    """Groups that everybody, the team or nobody but the administrator may read."""
    new_client = serve(store, model="default", base_url=ROOT, **PROXIED)
    for group in ("open", "open-team", "secret"):
        new_client.put(f"/messagegroups/{group}", {"messages": {"m": {"description": group}}})
    put_policy(store, TEAM, OPEN)
    return new_client


def test_a_token_becomes_a_session(client: Client, store: Store) -> None:
    visitor, secret = Visitor(client), secret_of(store, "ann", "team")
    before = visitor.show("/messagegroups/open?x=1")
    assert before.links()["Log in"] == "/ui/-/login?back=%2Fui%2Fmessagegroups%2Fopen%3Fx%3D1"
    assert visitor.show("/messagegroups/open-team").status == 404
    answer = visitor.log_in(secret, "/ui/messagegroups/open-team?x=1")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{ROOT}/ui/messagegroups/open-team?x=1")
    (cookie,) = [header for header in answer.headers.get_list("set-cookie") if "session" in header]
    pattern = rf"{SESSION}=[\w-]{{43}}; HttpOnly; SameSite=Lax; Path=/; Max-Age=(28800|28799|2879\d); Secure"
    assert re.fullmatch(pattern, cookie)
    assert secret not in cookie
    page = visitor.show("/messagegroups/open-team")
    assert (page.status, page.links()["You are ann"]) == (200, "/ui/-/identity")
    assert visitor.show("/messagegroups/secret").status == 404


def test_pages_of_a_session_are_not_cached(client: Client, store: Store) -> None:
    """No cache on the way, and no browser that another person uses next, keeps the pages, and the server does not
    mix up the readers.
    """
    ann, eve, nobody = Visitor(client), Visitor(client), Visitor(client)
    tag = nobody.show("/messagegroups/open/messages").headers["etag"]
    ann.log_in(secret_of(store, "ann", "team"))
    eve.log_in(secret_of(store, "eve", "team"))
    pages = ("/ui/messagegroups/open", "/ui/messagegroups/open/messages", "/ui/nothing", "/ui/-/identity")
    for path in (*pages, "/messagegroups/open", "/export"):
        answer = ann.send("GET", path)
        assert (answer.headers["cache-control"], "etag" in answer.headers) == ("no-store", False), path
    for visitor, name in ((ann, "You are ann"), (eve, "You are eve"), (nobody, "Log in"), (ann, "You are ann")):
        headers = {"If-None-Match": tag} if visitor is not nobody else {}
        page = visitor.show("/messagegroups/open/messages", headers=headers)
        assert name in page.links(), name
        assert page.headers["vary"].startswith("Cookie")
    assert nobody.send("GET", "/ui/messagegroups/open/messages", headers={"If-None-Match": tag}).status_code == 304


def test_a_session_may_what_its_token_may(client: Client, store: Store) -> None:
    """The same rules, and the same narrowing, by the same code."""
    for name, scopes in (("ann", None), ("bob", ("read", "list"))):
        header = bearer(store, name, "team", scopes=scopes)
        visitor = Visitor(client)
        visitor.log_in(header["Authorization"].removeprefix("Bearer "))
        for path in ("/", "/messagegroups", "/messagegroups/open-team", "/messagegroups/secret", "/export", "/access"):
            by_token, by_session = client.get(path, headers=header), visitor.send("GET", path)
            assert (by_session.status_code, by_session.text) == (by_token.status_code, by_token.text), (name, path)
        assert visitor.show("/-/edit/messagegroups/open-team").status == (403 if scopes else 200)


def test_a_cookie_writes_by_forms_alone(client: Client, store: Store) -> None:
    """A page of a sibling host could have a browser send it to the API, where no form has a token."""
    visitor = Visitor(client)
    visitor.log_in(secret_of(store, "ann", "team"))
    before = visitor.send("GET", "/export").text
    for method, path in (
        *(("PUT", "/messagegroups/open-new"), ("PATCH", "/messagegroups/open"), ("POST", "/messagegroups")),
        *(("DELETE", "/messagegroups/open"), ("POST", "/ui/-/edit/messagegroups/open"), ("POST", "/ui/messagegroups")),
    ):
        answer = visitor.send(method, path, json={"description": "forged"})
        assert answer.status_code in (400, 401, 403, 405), (method, path)
    assert visitor.send("GET", "/export").text == before
    form = fields(visitor.show("/-/edit/messagegroups/open")) | {"description": "by its form", "do": "save"}
    assert visitor.send("POST", "/ui/-/edit/messagegroups/open", data=form).status_code == 303
    assert visitor.send("GET", "/messagegroups/open").json()["description"] == "by its form"


def test_form_tokens_are_of_one_session(client: Client, store: Store) -> None:
    """Input from an expired form is not lost; its author may save it."""
    secret = secret_of(store, "ann", "team")
    visitor = Visitor(client)
    visitor.log_in(secret)
    form = fields(visitor.show("/-/edit/messagegroups/open")) | {"description": "late", "do": "save"}
    visitor.log_in(secret)
    answer = visitor.send("POST", "/ui/-/edit/messagegroups/open", data=form)
    assert (answer.status_code, "Nothing was done" in answer.text) == (403, True)
    again = Document(403, answer.headers, answer.text, parse(answer.text))
    harmless(again)
    assert fields(again)["description"] == "late"
    assert visitor.send("POST", "/ui/-/edit/messagegroups/open", data={**fields(again), "do": "save"}).is_redirect
    assert visitor.send("GET", "/messagegroups/open").json()["description"] == "late"


def test_session_cannot_be_fixed_before_the_login(client: Client, store: Store) -> None:
    """Whoever plants a cookie, be it invented or his own session's, is not in the session that its victim begins."""
    attacker = Visitor(client)
    attacker.log_in(secret_of(store, "eve", "team"))
    for planted in ("a" * 43, attacker.cookies[SESSION]):
        victim = Visitor(client, {SESSION: planted})
        victim.log_in(secret_of(store, "ann", "team"))
        assert victim.cookies[SESSION] != planted
        assert "You are ann" not in Visitor(client, {SESSION: planted}).show("/messagegroups/open").links()


def test_logout_ends_the_session_on_all_servers(client: Client, store: Store, serve: Serve) -> None:
    """The next request to any server of the database is rejected, even with a copy of the cookie."""
    other = serve(store, model="default", base_url=ROOT, **PROXIED)
    visitor = Visitor(client)
    visitor.log_in(secret_of(store, "ann", "team"))
    copied = Visitor(other, visitor.cookies)
    assert copied.show("/messagegroups/open-team").status == 200
    assert visitor.send("POST", "/ui/-/logout", data={"token": "x"}).status_code == 403
    answer = visitor.log_out()
    assert (answer.status_code, answer.headers["location"]) == (303, f"{ROOT}/ui/-/login?out=yes")
    assert SESSION not in visitor.cookies
    assert visitor.show("/messagegroups/open-team").status == 404
    ended = copied.show("/messagegroups/open-team")
    assert (ended.status, "your session has ended" in ended.words("main")) == (401, True)
    assert SESSION not in copied.cookies, "so that the next request is an anonymous one"
    assert "You are logged out" in visitor.show("/-/login?out=yes").words("main")


def test_logout_everywhere_ends_all_sessions_of_the_user(client: Client, store: Store) -> None:
    ann, again, eve = Visitor(client), Visitor(client), Visitor(client)
    secret = secret_of(store, "ann", "team")
    ann.log_in(secret)
    again.log_in(secret)
    eve.log_in(secret_of(store, "eve", "team"))
    ann.log_out("everywhere")
    assert again.show("/messagegroups/open").status == 401
    assert eve.show("/messagegroups/open").status == 200


def test_a_session_ends_with_its_token_and_its_time(client: Client, store: Store) -> None:
    visitor = Visitor(client)
    secret = secret_of(store, "ann", "team")
    visitor.log_in(secret)
    with store.write() as transaction:
        transaction.tokens.remove(secret.split("_")[1])
    assert visitor.show("/messagegroups/open").status == 401
    with store.write() as transaction:
        who = LoggedIn(identity=Identity(subject="ann"))
        _, expired = sessions.begin(transaction.sessions, who, now() - timedelta(hours=9), 8.0)
        gone = LoggedIn(identity=Identity(subject="ann", issuer="https://gone.example"))
        _, unknown = sessions.begin(transaction.sessions, gone, now(), 8.0)
    for cookie in (expired, unknown, "a" * 43, "short"):
        page = Visitor(client, {SESSION: cookie}).show("/messagegroups/open")
        assert (page.status, "your session has ended" in page.words("main")) == (401, True), cookie
        assert f"{SESSION}=; " in page.headers["set-cookie"]


def test_changed_policy_applies_to_sessions_immediately(client: Client, store: Store) -> None:
    visitor = Visitor(client)
    visitor.log_in(secret_of(store, "ann", "team"))
    assert visitor.show("/messagegroups/open-team").status == 200
    put_policy(store, OPEN)
    assert visitor.show("/messagegroups/open-team").status == 404


def test_a_login_leads_to_own_pages_alone(client: Client, store: Store) -> None:
    secret = secret_of(store, "ann", "team")
    for back in (
        *("https://evil.example", "//evil.example", "/\\evil.example", "/ui\\evil", "/uievil", "javascript:alert(1)"),
        *("/", "/messagegroups", "/ui/-/login?back=/ui", "/ui/-/logout", "/ui/\r\nSet-Cookie: a=b", "/ui/\u202e", ""),
        *("/ui/../x", "/ui/%2e%2E/x", "/ui/a/.././../x", "/ui/..", "/ui/-/./login", "/../ui/x", "/ui/../../ui/x"),
        "/ui/" + "x" * 1000,
    ):
        visitor = Visitor(client)
        assert fields(visitor.show("/-/login", params={"back": back}))["back"] == "/ui", back
        answer = visitor.log_in(secret, back=back)
        assert (answer.headers["location"], answer.status_code) == (f"{ROOT}/ui", 303), back


def test_login_requires_its_form(client: Client, store: Store) -> None:
    """Nobody is logged in as somebody else, by a page that sends that one's token."""
    secret, visitor = secret_of(store, "eve", "team"), Visitor(client)
    foreign = fields(Visitor(client).show("/-/login"))["token"]
    for token in ("", "x", foreign):
        assert (visitor.log_in(secret, token=token).status_code, SESSION in visitor.cookies) == (403, False)
    site = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    form = {**fields(visitor.show("/-/login")), "secret": secret}
    assert visitor.send("POST", "/ui/-/login", data=form, headers=site).status_code == 403
    assert visitor.send("POST", "/ui/-/login", data=form).status_code == 303


def test_wrong_tokens_are_reported_and_slowed_down(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", base_url=ROOT, limit_logins=3, **PROXIED)
    put_policy(store, TEAM)
    visitor, good = Visitor(client), secret_of(store, "ann", "team")
    for wrong in ("", "x" * 100, good[:-1] + ("a" if good[-1] != "a" else "b"), f"sbk_{'a' * 12}_{'b' * 49}", "<b>"):
        page = visitor.log_in(wrong)
        assert page.status_code in (401, 429)
        assert "basic" not in page.headers.get("www-authenticate", "").lower(), "a browser would ask for a password"
    assert page.status_code == 401, "what cannot be a token costs nothing"
    statuses = [visitor.log_in(f"sbk_{'a' * 12}_{number:049}").status_code for number in range(5)]
    assert statuses[-1] in (401, 429)
    assert visitor.log_in(good).status_code == 303, "credentials that are right are never held up"
    entries = client.get("/audit", headers=ADMINISTRATOR).json()
    assert ("ann", "login", "done") in {(entry["who"], entry["action"], entry["outcome"]) for entry in entries}
    assert good.rpartition("_")[2] not in client.get("/audit", headers=ADMINISTRATOR).text


@pytest.mark.parametrize("root", ["http://r.example", "https://r.example"])
def test_cookie_attributes_protect_the_session(store: Store, serve: Serve, root: str) -> None:
    client = serve(store, model="default", base_url=root, **PROXIED)
    put_policy(store, TEAM, OPEN)
    client.put("/messagegroups/open", {}, headers=ADMINISTRATOR)
    secret = session_of_ann(store, groups=frozenset({"team"}))
    for name in ("signalbook-session", "signalbook-session-80"):
        page = Visitor(client, {name: secret}).show("/messagegroups/open")
        assert "Log in" in page.links(), "a cookie that another host or anybody on the way could have set"
    if root.startswith("http:"):
        visitor = Visitor(client)
        assert "takes https" in visitor.show("/-/login").words("main")
        assert visitor.send("POST", "/ui/-/login", data={}).status_code == 403
        assert visitor.cookies == {"signalbook-form-80": visitor.cookies["signalbook-form-80"]}


def test_localhost_needs_no_tls(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", base_url="http://localhost:8080", **PROXIED)
    put_policy(store, TEAM)
    visitor = Visitor(client)
    answer = visitor.log_in(secret_of(store, "ann", "team"))
    (cookie,) = [header for header in answer.headers.get_list("set-cookie") if "session" in header]
    assert re.match(r"signalbook-session-8080=[\w-]{43}; HttpOnly; SameSite=Lax; Path=/; ", cookie)
    assert visitor.show("").status == 200


def test_login_page_offers_the_configured_ways(store: Store, serve: Serve) -> None:
    put_policy(store, TEAM, OPEN)
    off = serve(store, model="default", base_url=ROOT, login="off", **PROXIED)
    secret = session_of_ann(store, groups=frozenset({"team"}))
    assert not {"Log in", "You are ann"} & Visitor(off, {SESSION: secret}).show("").links().keys()
    assert off.get("/ui/-/login").status_code == 404
    assert off.get("/ui/-/identity").status_code == 200
    on = Visitor(serve(store, model="default", base_url=ROOT, **PROXIED, **login_at(NO_ISSUER)))
    assert on.show("/-/login").links()["Log in at http://127.0.0.1:9"] == "/ui/-/login/issuer?back=/ui"
    assert on.show("/-/login/issuer").status == 503
    assert "with an api token" in on.show("/-/login").words("main").lower()
    only = Visitor(serve(store, model="default", base_url=ROOT, login="issuer", **PROXIED, **login_at(NO_ISSUER)))
    assert "with an api token" not in only.show("/-/login").words("main").lower()
    assert only.send("POST", "/ui/-/login", data={}).status_code == 403
    tokens = Visitor(serve(store, model="default", base_url=ROOT, login="tokens", **PROXIED, **login_at(NO_ISSUER)))
    assert tokens.show("/-/login/issuer").status == 404
    assert tokens.show("/-/login/callback?code=x&state=y").status == 404


def test_answers_to_unknown_logins_are_rejected(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", base_url=ROOT, **PROXIED, **login_at(NO_ISSUER))
    put_policy(store, TEAM)
    for cookies in ({}, {"__Host-signalbook-login": "forged"}):
        page = Visitor(client, cookies).show("/-/login/callback?code=x&state=y")
        assert (page.status, "no login was begun in this browser" in page.words("main")) == (401, True)


def test_logins_have_limits_of_their_own_for_each_address(store: Store, serve: Serve) -> None:
    """Invented answers to logins hold up neither other addresses nor who reads at the same one."""
    client = serve(store, model="default", base_url=ROOT, limit_requests=1, **PROXIED)
    put_policy(store, TEAM, OPEN)
    client.put("/messagegroups/open", {}, headers=ADMINISTRATOR)
    answers = (client.get("/ui/-/login/callback?code=x&state=y") for _ in range(50))
    assert next(answer for answer in answers if answer.status_code == 429).headers["retry-after"] == "1"
    assert client.get("/ui/-/login", headers={"X-Forwarded-For": "192.0.2.1"}).status_code == 200
    assert client.get("/messagegroups/open").status_code == 200


def test_one_address_does_not_take_all_turns_to_ask_an_issuer(
    store: Store, serve: Serve, issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: list[int] = []
    under_way: list[int] = []

    def slow(*_: object) -> LoggedIn:
        running.append(1)
        under_way.append(len(running))
        time.sleep(0.05)
        running.pop()
        raise LoginFailed("an invented code")

    client = serve(store, model="default", base_url=ROOT, limit_reads=2, **PROXIED, **login_at(issuer.url))
    put_policy(store, TEAM)
    visitor = Visitor(client)
    begun(visitor)
    monkeypatch.setattr(LoginClient, "finish", slow)
    answers = [("GET", f"/ui/-/login/callback?code={number}&state=y", None) for number in range(6)]
    cookie = {"Cookie": "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())}
    assert {answer.status_code for answer in client.together(*answers, headers=cookie)} == {401}
    assert max(under_way) == 2


def begun(visitor: Visitor) -> dict[str, str]:
    """Return the query parameters with which a login at the issuer begins."""
    where = visitor.send("GET", "/ui/-/login/issuer?back=/ui/messagegroups").headers["location"]
    return {name: values[0] for name, values in parse_qs(urlsplit(where).query).items()}


def test_a_login_at_an_issuer(store: Store, serve: Serve, issuer: FakeIssuer) -> None:
    """The answer counts in the browser that began the login, once, and with the token that was made for it."""
    client = serve(store, model="default", base_url=ROOT, **PROXIED, **login_at(issuer.url))
    put_policy(store, TEAM)
    ann, eve = Visitor(client), Visitor(client)
    login_query, query_of_eve = begun(ann), begun(eve)
    assert login_query["redirect_uri"] == f"{ROOT}/ui/-/login/callback"

    def called_back(visitor: Visitor, state: str, nonce: str) -> httpx.Response:
        token = issuer.token(aud="us", nonce=nonce, sub="ann", groups=["team"], name="Ann")
        issuer.granted = (200, {"id_token": token})
        return visitor.send("GET", "/ui/-/login/callback", params={"code": "c", "state": state})

    for state, nonce, why in (
        (query_of_eve["state"], login_query["nonce"], "another login"),
        ("", login_query["nonce"], "another login"),
        (login_query["state"], query_of_eve["nonce"], "nonce"),
    ):
        answer = called_back(ann, state, nonce)
        assert (answer.status_code, why in answer.text, SESSION in ann.cookies) == (401, True, False)
    posted = len(issuer.posted)
    assert called_back(ann, login_query["state"], login_query["nonce"]).status_code == 401, "one answer, be it refused"
    assert len(issuer.posted) == posted
    login_query = begun(ann)
    answer = called_back(ann, login_query["state"], login_query["nonce"])
    assert (answer.status_code, answer.headers["location"]) == (303, f"{ROOT}/ui/messagegroups")
    assert "You are Ann" in ann.show("").links()
    hint = issuer.granted[1]["id_token"]
    assert called_back(ann, login_query["state"], login_query["nonce"]).status_code == 401, "its cookie is gone"
    facts = ann.show("/-/identity")
    assert issuer.url in facts.words("main")
    assert "form-action 'self';" in facts.headers["content-security-policy"]
    issuer.metadata["end_session_endpoint"] = f"{issuer.url}/end?a=b"
    again = Visitor(serve(store, model="default", base_url=ROOT, **PROXIED, **login_at(issuer.url)), ann.cookies)
    assert f"form-action 'self' {issuer.url};" in again.show("/-/identity").headers["content-security-policy"]
    where = again.log_out().headers["location"]
    query = parse_qs(urlsplit(where).query)
    assert where.startswith(f"{issuer.url}/end?a=b&")
    assert query["post_logout_redirect_uri"] == [f"{ROOT}/ui/-/login"]
    assert query["id_token_hint"] == [hint]
    entries = client.get("/audit", headers=ADMINISTRATOR).json()
    assert {"login", "logout"} <= {entry["action"] for entry in entries if entry["who"] == "ann"}


def test_login_can_be_restarted_if_the_issuer_is_unreachable(store: Store, serve: Serve, issuer: FakeIssuer) -> None:
    visitor = Visitor(serve(store, model="default", base_url=ROOT, **PROXIED, **login_at(issuer.url)))
    put_policy(store, TEAM)
    query = begun(visitor)
    token = issuer.token(aud="us", nonce=query["nonce"], sub="ann", groups=["team"])
    issuer.granted, issuer.away = (200, {"id_token": token}), True
    parameters = {"code": "c", "state": query["state"]}
    page = visitor.show("/-/login/callback", params=parameters)
    assert (page.status, "cannot be asked" in page.words("main")) == (503, True)
    assert "Log in" in page.words("main")
    issuer.away = False
    assert visitor.send("GET", "/ui/-/login/callback", params=parameters).status_code == 401, "its cookie is gone"


def test_login_without_groups_is_rejected_if_rules_name_groups(store: Store, serve: Serve, issuer: FakeIssuer) -> None:
    """Rules may allow things to groups, or deny them: without his groups somebody has other rights than are meant."""
    client = serve(store, model="default", base_url=ROOT, **PROXIED, **login_at(issuer.url))

    def logged_in(*rules: Any, **claims: Any) -> httpx.Response:
        put_policy(store, *rules)
        visitor = Visitor(client)
        query = begun(visitor)
        token = issuer.token(aud="us", nonce=query["nonce"], sub="ann", **claims)
        issuer.granted = (200, {"id_token": token})
        return visitor.send("GET", "/ui/-/login/callback", params={"code": "c", "state": query["state"]})

    for rule in ({"who": ["group:team"], "role": "reader"}, {"who": ["group:partners"], "deny": ["read"]}):
        refused = logged_in(rule)
        assert (refused.status_code, "neither the claim groups" in refused.text) == (401, True)
        assert "signalbook-session" not in refused.headers.get("set-cookie", "")
        assert logged_in(rule, groups=[]).status_code == 303, "none is an answer"
    assert logged_in({"who": ["subject:ann"], "role": "reader"}).status_code == 303


def test_logout_works_while_the_issuer_is_busy(store: Store, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other callers wait for a slow issuer and use up all turns."""

    def busy(*_: str) -> str:
        raise StorageBusy("no turn")

    monkeypatch.setattr(LoginClient, "logout_url", busy)
    client = serve(store, model="default", base_url=ROOT, **PROXIED, **login_at(NO_ISSUER))
    put_policy(store, OPEN)
    visitor = Visitor(client, {SESSION: session_of_ann(store, issuer=NO_ISSUER)})
    answer = visitor.log_out()
    assert (answer.status_code, answer.headers["location"]) == (303, f"{ROOT}/ui/-/login?out=yes")
    assert SESSION not in visitor.cookies


def test_login_page_without_a_policy_offers_no_login(store: Store, serve: Serve) -> None:
    visitor = Visitor(serve(store, model="default", base_url=ROOT))
    assert "Everybody may do everything" in visitor.show("/-/login").words("main")
    assert "Log in" not in visitor.show("").links()
    assert "Everybody may do everything" in visitor.show("/-/identity").words("main")


def test_identity_page_shows_the_identity(client: Client, store: Store) -> None:
    visitor = Visitor(client)
    anonymous = visitor.show("/-/identity").words("main")
    assert "may do what everybody may" in anonymous
    assert "reader on /messagegroups/open" in anonymous
    visitor.log_in(secret_of(store, "ann", "team", scopes=("read", "list")))
    page = visitor.show("/-/identity")
    words = page.words("main")
    for text in ("ann", "Groups team", "Narrowed to list, read", "Session until", "writer on /messagegroups/open*"):
        assert text in words
    rows = {tuple(" ".join("".join(cell.itertext()).split()) for cell in row) for row in page.all("tr")}
    assert {("read", "in parts"), ("update", "no"), ("administer", "no")} <= rows
    assert "without a session" in client.send("GET", "/ui/-/identity", headers=ADMINISTRATOR).text


def test_refusal_shows_identity_and_missing_rights(client: Client, store: Store) -> None:
    visitor = Visitor(client)
    visitor.log_in(secret_of(store, "ann", "team", scopes=("read", "list")))
    page = visitor.show("/-/edit/messagegroups/open-team")
    words = page.words("main")
    assert page.status == 403
    assert "You are ann" in words
    assert "No rule allows you to update on " in words
    assert "group:team" in words
    back = "/ui/-/login?back=%2Fui%2F-%2Fedit%2Fmessagegroups%2Fopen-team"
    assert page.links()["Log in as somebody else"] == back


def test_an_administrator_ends_the_sessions_of_somebody(client: Client, store: Store) -> None:
    ann, eve = Visitor(client), Visitor(client)
    ann.log_in(secret_of(store, "ann", "team"))
    eve.log_in(secret_of(store, "eve", "team"))
    path = "/access/sessions?subject=ann"
    assert eve.send("DELETE", path).status_code == 401, "a session writes by forms alone"
    assert client.send("DELETE", path, headers=bearer(store, "eve", "team")).status_code == 403
    assert client.send("DELETE", "/access/sessions", headers=ADMINISTRATOR).status_code == 400
    assert client.send("DELETE", path, headers=ADMINISTRATOR).json() == {"subject": "ann", "ended": 1}
    assert ann.show("/messagegroups/open").status == 401
    assert eve.show("/messagegroups/open").status == 200
    entries = client.get("/audit?xid=/access/sessions", headers=ADMINISTRATOR).json()
    assert "ended 1 of ann" in {entry.get("about") for entry in entries}
