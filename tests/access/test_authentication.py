"""Who a request is from: API tokens, HTTP Basic, a trusted proxy, certificates; what is refused, and how."""

import base64
import time
from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Any

import pytest

from signalbook import values
from signalbook.access import tokens
from signalbook.access.authentication import Authenticator, Usage
from signalbook.access.base import ANONYMOUS, Identity, Unauthenticated
from signalbook.access.tokens import TokenRequest
from signalbook.settings import SettingError, Settings
from signalbook.storage.store import Store

PROXY: dict[str, Any] = {
    "trusted_proxies": ("10.0.0.0/8", "::1"),
    "proxy_user_header": "X-Forwarded-User",
    "proxy_groups_header": "X-Forwarded-Groups",
}
CERTIFICATE = Identity(subject="cn")


def made(store: Store, *, expires: datetime | None = None, subject: str = "ci") -> tuple[str, str]:
    with store.write() as writer:
        stored, text = tokens.create(writer.tokens, TokenRequest(subject=subject, expires=expires), values.now())
    return stored.id, text


def presented(
    *headers: tuple[str, str], peer: str = "192.0.2.1", certificate: Identity | None = None
) -> dict[str, Any]:
    """An ASGI scope."""
    pairs = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    scope = {"type": "http", "headers": pairs, "client": (peer, 1234) if peer else None}
    return scope if certificate is None else {**scope, "certificate": certificate}


class Asking:
    """An authenticator as the kernel uses it."""

    def __init__(self, store: Store, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self.real = Authenticator(store, settings, clock=clock)
        self.usage, self.build_challenges = self.real.usage, self.real.build_challenges

    def find_verified(self, scope: dict[str, Any], generation: Hashable) -> Identity | None:
        credentials = self.real.read_credentials(scope)
        return ANONYMOUS if credentials is None else self.real.find_verified(credentials, generation)

    def identify(self, scope: dict[str, Any], generation: Hashable) -> Identity:
        credentials = self.real.read_credentials(scope)
        return ANONYMOUS if credentials is None else self.real.identify(credentials, generation)


def bearer(text: str) -> dict[str, Any]:
    return presented(("Accept", "*/*"), ("Authorization", f"Bearer {text}"))


def basic(user: str, password: str) -> dict[str, Any]:
    return presented(("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()))


@pytest.fixture
def authenticator(store: Store) -> Asking:
    return Asking(store, Settings())


def test_request_without_credentials_is_anonymous(authenticator: Asking) -> None:
    assert authenticator.find_verified(presented(), 1) is ANONYMOUS
    assert authenticator.identify(presented(), 1) is ANONYMOUS


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_an_api_token(store: Store, authenticator: Asking, scheme: str) -> None:
    token_id, text = made(store)
    request = presented(("Authorization", f"{scheme} {text}"))
    assert authenticator.find_verified(request, 1) is None
    assert authenticator.identify(request, 1) == Identity(subject="ci", token=token_id)
    assert authenticator.find_verified(request, 1) == Identity(subject="ci", token=token_id)


def test_a_token_as_user_and_password(store: Store, authenticator: Asking) -> None:
    token_id, text = made(store)
    assert authenticator.identify(basic(token_id, text.rpartition("_")[2]), 1).token == token_id


def test_token_is_checked_again_after_a_commit(store: Store, authenticator: Asking) -> None:
    token_id, text = made(store)
    authenticator.identify(bearer(text), store.generation())
    assert authenticator.find_verified(bearer(text), store.generation()) is not None
    with store.write() as writer:
        writer.tokens.remove(token_id)
    assert authenticator.find_verified(bearer(text), store.generation()) is None
    with pytest.raises(Unauthenticated, match="revoked"):
        authenticator.identify(bearer(text), store.generation())


def test_cached_token_expires(store: Store) -> None:
    expires = values.now() + timedelta(days=1)
    _, text = made(store, expires=expires)
    now = [expires.timestamp() - 1]
    authenticator = Asking(store, Settings(), clock=lambda: now[0])
    assert authenticator.identify(bearer(text), 1).subject == "ci"
    assert authenticator.find_verified(bearer(text), 1) is not None
    now[0] += 1
    assert authenticator.find_verified(bearer(text), 1) is None
    with pytest.raises(Unauthenticated, match="expired"):
        authenticator.identify(bearer(text), 1)


def test_wrong_secret_reveals_nothing_about_the_token(store: Store, authenticator: Asking) -> None:
    """The error does not reveal if a token with this id exists or has expired."""
    there, text = made(store, expires=values.now() - timedelta(seconds=1))
    with store.write() as writer:
        _, gone = tokens.create(writer.tokens, TokenRequest(subject="x"), values.now())
        writer.tokens.remove(tokens.split(gone)[0])  # type: ignore[index]
    random = "a" * 43
    wrong = f"sbk_{there}_{random}{tokens._compute_checksum(there, random)}"
    messages = set()
    for credential in (gone, wrong):
        with pytest.raises(Unauthenticated) as error:
            authenticator.identify(bearer(credential), 1)
        messages.add(str(error.value))
    assert messages == {"the API token is unknown or revoked, or its secret is wrong"}
    with pytest.raises(Unauthenticated, match="has expired"):
        authenticator.identify(bearer(text), 1)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("", "Bearer with a token, or Basic"),
        ("Digest x", "Bearer with a token, or Basic"),
        ("Bearer", "begin with sbk_"),
        ("Bearer sbk_x", "checksum"),
        ("Bearer eyJhbGciOiJub25lIn0.e30.", "begin with sbk_"),
        ("Bearer \xe9", "ASCII"),
        ("Bearer " + "x" * 16385, "longer than"),
        ("Basic", "no colon"),
        ("Basic !!", "base64"),
        ("Basic /w==", "base64"),
        ("Basic " + base64.b64encode(b"user").decode(), "no colon"),
        ("Basic " + base64.b64encode(b"user:password").decode(), "checksum"),
    ],
)
def test_invalid_authorization_header_is_explained(authenticator: Asking, header: str, reason: str) -> None:
    with pytest.raises(Unauthenticated, match=reason):
        authenticator.identify(presented(("Authorization", header)), 1)


def test_claimed_identity_needs_no_proof(store: Store, authenticator: Asking) -> None:
    """Return the claimed identity, which is used for counting failed logins."""
    token_id, text = made(store)
    unknown = "sbk_" + "a" * 12 + "_" + "b" * 49
    claimed = []
    for scope in (
        bearer(text),
        basic(token_id, text.rpartition("_")[2]),
        bearer(unknown),
        bearer("x.y.z"),
        basic("u", "p"),
    ):
        credentials = authenticator.real.read_credentials(scope)
        assert credentials is not None
        claimed.append(credentials.claimed)
    assert claimed == [token_id, token_id, "a" * 12, "", ""]


def test_two_authorization_headers_are_rejected(authenticator: Asking) -> None:
    two = presented(("Authorization", "Bearer x"), ("Authorization", "Bearer y"))
    for ask in (authenticator.find_verified, authenticator.identify):
        with pytest.raises(Unauthenticated, match="more than one"):
            ask(two, 1)


def test_no_error_repeats_what_was_presented(store: Store, authenticator: Asking) -> None:
    _, text = made(store)
    for wrong in (text[:-1], text + "x", text.upper(), f"{text}.{text}.{text}"):
        with pytest.raises(Unauthenticated) as error:
            authenticator.identify(bearer(wrong), 1)
        assert text[20:40].lower() not in f"{error.value!r}{authenticator.build_challenges('', error.value)}".lower()


def test_memory_is_bounded(store: Store, authenticator: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signalbook.access.authentication._MAX_VERIFIED", 2)
    texts = [made(store)[1] for _ in range(3)]
    for text in texts:
        authenticator.identify(bearer(text), 1)
    assert [authenticator.find_verified(bearer(text), 1) is None for text in texts] == [True, False, False]
    assert not any(text.encode() in repr(authenticator.real.__dict__).encode() for text in texts)


def test_challenges_list_the_accepted_schemes(authenticator: Asking, store: Store) -> None:
    assert authenticator.build_challenges("http://r") == (
        ("WWW-Authenticate", 'Bearer realm="signalbook"'),
        ("WWW-Authenticate", 'Basic realm="signalbook", charset="UTF-8"'),
    )
    wrong = authenticator.build_challenges("http://r", Unauthenticated('it "is"\r\nwrong \\ é'))
    assert wrong[0][1] == ('Bearer realm="signalbook", error="invalid_token", error_description="it  is   wrong    "')
    with_issuer = Asking(store, Settings(oidc_issuers=("https://i.example",), oidc_audience=("a",)))
    metadata = 'resource_metadata="http://r/.well-known/oauth-protected-resource"'
    assert metadata in with_issuer.build_challenges("http://r")[0][1]


# Proxies and certificates


def named(*more: tuple[str, str], peer: str = "10.1.2.3", certificate: Identity | None = None) -> dict[str, Any]:
    return presented(("x-forwarded-user", "ann"), *more, peer=peer, certificate=certificate)


def test_a_trusted_proxy_names_the_user(sqlite_store: Callable[[], Store]) -> None:
    authenticator = Asking(sqlite_store(), Settings(**PROXY))
    groups = ("X-Forwarded-Groups", "a, b,,Zo\xc3\xab")
    expected = Identity(subject="ann", groups=frozenset({"a", "b", "Zoë"}))
    for peer in ("10.1.2.3", "::1", "::ffff:10.0.0.1"):
        assert authenticator.find_verified(named(groups, peer=peer), 1) == expected
    assert authenticator.find_verified(named(("Authorization", "Bearer x")), 1) == Identity(subject="ann")


@pytest.mark.parametrize("peer", ["192.0.2.1", "", "unix", "11.0.0.1"])
def test_forwarded_user_of_an_untrusted_peer_is_ignored(sqlite_store: Callable[[], Store], peer: str) -> None:
    assert Asking(sqlite_store(), Settings(**PROXY)).find_verified(named(peer=peer), 1) is ANONYMOUS
    assert Asking(sqlite_store(), Settings()).find_verified(named(), 1) is ANONYMOUS


def test_proxy_certificate_is_not_the_caller(sqlite_store: Callable[[], Store]) -> None:
    authenticator = Asking(sqlite_store(), Settings(**PROXY))
    assert authenticator.find_verified(presented(peer="10.0.0.1", certificate=CERTIFICATE), 1) is ANONYMOUS
    assert authenticator.find_verified(presented(("X-Forwarded-User", " "), peer="10.0.0.1"), 1) is ANONYMOUS
    assert authenticator.find_verified(named(certificate=CERTIFICATE), 1) == Identity(subject="ann")


@pytest.mark.parametrize(
    ("more", "reason"),
    [(("X-Forwarded-User", "eve"), "more than one"), (("X-Forwarded-Groups", "a\x01b"), "printable")],
)
def test_contradictory_proxy_headers_are_rejected(
    sqlite_store: Callable[[], Store], more: tuple[str, str], reason: str
) -> None:
    authenticator = Asking(sqlite_store(), Settings(**PROXY))
    with pytest.raises(Unauthenticated, match=reason):
        authenticator.find_verified(named(more), 1)


def test_a_certificate_counts_without_anything_else(store: Store, authenticator: Asking) -> None:
    token_id, text = made(store)
    assert authenticator.find_verified(presented(certificate=CERTIFICATE), 1) == CERTIFICATE
    both = presented(("Authorization", f"Bearer {text}"), certificate=CERTIFICATE)
    assert authenticator.identify(both, 1).token == token_id


@pytest.mark.parametrize(
    "settings",
    [
        {"proxy_user_header": "x"},
        {"proxy_groups_header": "x"},
        {**PROXY, "trusted_proxies": ("10.0.0.1/8",)},
        {**PROXY, "trusted_proxies": ("proxy",)},
        {**PROXY, "proxy_user_header": "a b"},
        {**PROXY, "proxy_user_header": "Authorization"},
        {"oidc_issuers": ("https://i.example",)},
        {"oidc_issuers": ("http://i.example",), "oidc_audience": ("a",)},
        {"oidc_issuers": ("https://u@i.example",), "oidc_audience": ("a",)},
        {"oidc_issuers": ("https://[",), "oidc_audience": ("a",)},
        {"oidc_algorithms": ("none",)},
        {"oidc_algorithms": ("HS256",)},
        {"oidc_issuers": ("https://i.example",), "oidc_audience": ("a",), "oidc_algorithms": ()},
        {"oidc_leeway": -1.0},
        {"oidc_leeway": float("nan")},
    ],
)
def test_invalid_settings_are_rejected(sqlite_store: Callable[[], Store], settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        Asking(sqlite_store(), Settings(**settings))


# When tokens were used


def used(store: Store, id: str) -> datetime | None:
    with store.read() as reader:
        stored = reader.tokens.get(id)
    assert stored is not None
    return stored.used


def test_last_use_of_a_token_is_stored(store: Store, authenticator: Asking) -> None:
    token_id, text = made(store)
    authenticator.identify(bearer(text), 1)
    assert used(store, token_id) is None
    authenticator.usage.write()
    first = used(store, token_id)
    assert first is not None
    assert abs(values.now() - first) < timedelta(seconds=60)
    authenticator.usage.write()
    assert used(store, token_id) == first
    authenticator.find_verified(bearer(text), 1)
    authenticator.usage.write()
    assert used(store, token_id) > first  # type: ignore[operator]


def test_last_use_is_stored_periodically_and_at_shutdown(store: Store) -> None:
    token_id, _ = made(store)
    usage = Usage(store, seconds=0.01)
    usage.note(token_id)
    deadline = time.monotonic() + 60
    while used(store, token_id) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    usage.stop()
    assert used(store, token_id) is not None
    other, _ = made(store)
    last = Usage(store, seconds=100)
    last.note(other)
    last.stop()
    assert used(store, other) is not None


def test_unavailable_store_does_not_stop_the_recording(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    usage = Usage(store)
    usage.note("x")
    store.close()
    usage.write()
    assert "API tokens" in caplog.text


@pytest.mark.parametrize(
    ("peer", "headers", "expected"),
    [
        ("10.0.0.1", ["192.0.2.9"], "192.0.2.9"),
        ("10.0.0.1", ["6.6.6.6, 192.0.2.9, 10.0.0.7"], "192.0.2.9"),
        ("10.0.0.1", ["6.6.6.6", "2001:db8::1"], "2001:db8::1"),
        ("10.0.0.1", ["10.0.0.2"], ""),
        ("10.0.0.1", ["unknown"], ""),
        ("10.0.0.1", ["6.6.6.6,"], ""),
        ("10.0.0.1", [], ""),
        ("192.0.2.1", ["6.6.6.6"], ""),
    ],
)
def test_trusted_proxy_states_the_client_address(
    sqlite_store: Callable[[], Store], peer: str, headers: list[str], expected: str
) -> None:
    """Anybody can send the addresses before the last address that is not a proxy."""
    authenticator = Authenticator(sqlite_store(), Settings(trusted_proxies=("10.0.0.0/8",)))
    forwarded = [(b"x-forwarded-for", value.encode()) for value in headers]
    assert authenticator.find_forwarded_address({"headers": forwarded, "client": (peer, 1)}) == expected
