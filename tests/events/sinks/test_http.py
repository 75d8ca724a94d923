import base64
import hashlib
import hmac
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.brokers.certificates import issue

from signalbook import values
from signalbook.events.sinks.base import Consent, DeliveryError, NotYet, SinkPolicy
from signalbook.events.sinks.http import WebhookFactory
from signalbook.events.subscription import Credential, Subscription, SubscriptionError
from signalbook.fetching import AllowList
from signalbook.values import JSONObject, format_timestamp

from ..hooks import DEADLINE, Hook, Says, reserved, serving

ORIGIN = "registry.example.com"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def events(*ids: int) -> list[JSONObject]:
    about = {"specversion": "1.0", "source": "https://r.example/", "type": "t", "subject": "/é"}
    return [{**about, "id": str(number)} for number in ids]


def subscription(hook: Hook, credential: Credential | None = None, **settings: Any) -> Subscription:
    return Subscription(id="s1", protocol="HTTP", sink=hook.url, credential=credential, protocolsettings=settings)


def policy(*hooks: Hook, **more: Any) -> SinkPolicy:
    return SinkPolicy(allow=AllowList([hook.place for hook in hooks]), origin=ORIGIN, **{"timeout": DEADLINE, **more})


def deliver(
    subscription_: Subscription, policy: SinkPolicy, events: list[JSONObject], hooks: WebhookFactory | None = None
) -> None:
    with closing((hooks or WebhookFactory()).open(subscription_, policy)) as sink:
        sink.send(events)


def bearer(token: str = "t0k~en/+=", **members: str) -> Credential:
    return Credential(credentialtype="ACCESSTOKEN", members=members, secrets={"accesstoken": token})


@pytest.fixture
def serve() -> Iterator[Callable[[Hook], Hook]]:
    """Serves hooks until the test is over."""
    with ExitStack() as served:
        yield lambda hook: served.enter_context(serving(hook))


Serve = Callable[[Hook], Hook]


def test_an_event_is_a_request_in_structured_mode(serve: Serve) -> None:
    """The request is a POST with content type, payload and the headers of the settings, and has the origin (D-34)
    (D-22, D-30, D-33).
    """
    hook = serve(Hook())
    deliver(subscription(hook, headers={"X-Shop": "7"}), policy(hook), events(1, 2))
    assert [got.method for got in hook.got] == ["OPTIONS", "POST", "POST"]
    first = hook.posts[0]
    assert (first.path, json.loads(first.body)) == ("/hook", events(1)[0])
    assert first.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert (first.headers["x-shop"], first.headers["webhook-request-origin"]) == ("7", ORIGIN)
    assert "authorization" not in first.headers
    assert hook.ids == [1, 2]


def test_the_method_is_a_setting(serve: Serve) -> None:
    """The setting ``method`` chooses the method (D-30)."""
    hook = serve(Hook())
    deliver(subscription(hook, method="PUT"), policy(hook), events(1))
    assert hook.posts[0].method == "PUT"


def test_mode_batch_sends_batches(serve: Serve) -> None:
    hook = serve(Hook())
    deliver(subscription(hook, mode="batch"), policy(hook), events(1, 2, 3))
    (got,) = hook.posts
    assert got.headers["content-type"] == "application/cloudevents-batch+json; charset=utf-8"
    assert json.loads(got.body) == events(1, 2, 3)


def test_a_batch_that_is_not_understood_is_taken_apart(serve: Serve) -> None:
    """The status 415 concerns one of the events (D-33)."""
    hook = serve(Hook(Says(415), Says(), Says(415), always=Says()))
    with pytest.raises(DeliveryError) as raised:
        deliver(subscription(hook, mode="batch"), policy(hook), events(1, 2, 3))
    assert (raised.value.rejected, raised.value.delivered) == (True, 1)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(serve: Serve, status: int) -> None:
    """A redirect is an error (D-33)."""
    other = serve(Hook())
    hook = serve(Hook(always=Says(status, (("Location", other.url),))))
    with pytest.raises(DeliveryError, match=f"answered {status}; redirects are not followed"):
        deliver(subscription(hook), policy(hook, other), events(1))
    assert (len(hook.posts), other.got) == (1, [])


def test_events_before_a_failure_count_as_delivered(serve: Serve) -> None:
    hook = serve(Hook(Says(), Says(201), Says(503, (("Retry-After", "7"),))))
    with pytest.raises(DeliveryError) as raised:
        deliver(subscription(hook), policy(hook), events(1, 2, 3, 4))
    assert (raised.value.delivered, raised.value.retry_after) == (2, 7.0)
    assert hook.ids == [1, 2, 3]


class TestConsent:
    """Tests of asking a webhook for consent (D-34)."""

    def test_the_question(self, serve: Serve) -> None:
        hook = serve(Hook())
        sink_policy = policy(hook, callback="https://r.example/subscriptions/s1/consent?key=k")
        deliver(subscription(hook, bearer(), rate=120), sink_policy, events(1))
        question = hook.got[0]
        assert (question.method, question.path, question.body) == ("OPTIONS", "/hook", b"")
        assert question.headers["webhook-request-origin"] == ORIGIN
        assert question.headers["webhook-request-rate"] == "120"
        assert question.headers["webhook-request-callback"] == sink_policy.callback
        assert "authorization" not in question.headers

    def test_unneeded_permissions_are_not_requested(self, serve: Serve) -> None:
        hook = serve(Hook())
        deliver(subscription(hook), policy(hook), events(1))
        assert {"webhook-request-rate", "webhook-request-callback"}.isdisjoint(hook.got[0].headers)

    def test_nothing_is_sent_without_consent(self, serve: Serve) -> None:
        hook = serve(Hook(agrees=Says(200, (("Allow", "POST"),))))
        with pytest.raises(DeliveryError, match="has not agreed"):
            deliver(subscription(hook), policy(hook), events(1))
        assert hook.posts == []

    def test_consent_is_requested_once(self, serve: Serve) -> None:
        hook, hooks = serve(Hook()), WebhookFactory()
        for number in (1, 2):
            deliver(subscription(hook), policy(hook), events(number), hooks)
        assert [got.method for got in hook.got] == ["OPTIONS", "POST", "POST"]

    def test_given_by_callback(self, serve: Serve) -> None:
        hook = serve(Hook(agrees=Says(405)))
        deliver(subscription(hook), policy(hook, consent=Consent()), events(1))
        assert [got.method for got in hook.got] == ["POST"]

    def test_taken_for_granted_by_the_operator(self, serve: Serve) -> None:
        hook = serve(Hook(agrees=Says(405)))
        deliver(subscription(hook), policy(hook, ask=False), events(1))
        assert [(got.method, got.headers["webhook-request-origin"]) for got in hook.got] == [("POST", ORIGIN)]

    def test_allowed_rate_is_respected(self, serve: Serve) -> None:
        agrees = Says(200, (("WebHook-Allowed-Origin", ORIGIN), ("WebHook-Allowed-Rate", "1")))
        hook = serve(Hook(agrees=agrees))
        with pytest.raises(NotYet) as raised:
            deliver(subscription(hook), policy(hook), events(*range(10)))
        assert raised.value.delivered == len(hook.posts) < 3
        assert raised.value.retry_after is not None
        assert 0 < raised.value.retry_after <= 60


class TestCredentials:
    """D-31, D-35."""

    def test_a_bearer_token(self, serve: Serve) -> None:
        hook = serve(Hook())
        deliver(subscription(hook, bearer()), policy(hook), events(1))
        assert hook.posts[0].headers["authorization"] == "Bearer t0k~en/+="

    def test_a_token_of_another_type(self, serve: Serve) -> None:
        hook = serve(Hook())
        deliver(subscription(hook, bearer("x", accesstokentype="Token")), policy(hook), events(1))
        assert hook.posts[0].headers["authorization"] == "Token x"

    def test_a_token_in_the_query(self, serve: Serve) -> None:
        hook = serve(Hook())
        with_token = subscription(hook, bearer(), accesstokenin="query")
        deliver(with_token, policy(hook), events(1))
        got = hook.posts[0]
        assert got.path == "/hook?access_token=t0k~en%2F%2B%3D"
        assert got.headers["cache-control"] == "no-store"
        assert "authorization" not in got.headers

    def test_a_name_and_a_password(self, serve: Serve) -> None:
        hook = serve(Hook())
        plain = Credential(credentialtype="PLAIN", members={"identifier": "me"}, secrets={"secret": "pä:ss"})
        deliver(subscription(hook, plain), policy(hook), events(1))
        authorization = hook.posts[0].headers["authorization"]
        assert base64.b64decode(authorization.removeprefix("Basic ")).decode() == "me:pä:ss"

    def test_expired_token_is_an_error(self, serve: Serve) -> None:
        hook = serve(Hook())
        past = format_timestamp(values.now() - timedelta(minutes=1))
        with pytest.raises(DeliveryError, match="token is over"):
            deliver(subscription(hook, bearer(accesstokenexpiresutc=past)), policy(hook), events(1))
        assert hook.posts == []

    def test_signatures(self, serve: Serve) -> None:
        """Signatures follow Standard Webhooks, so that its libraries can verify them."""
        hook = serve(Hook())
        signed = Credential(credentialtype="SIGNATURE", secrets={"signingsecret": SECRET})
        deliver(subscription(hook, signed), policy(hook), events(7))
        got = hook.posts[0]
        content = f"{got.headers['webhook-id']}.{got.headers['webhook-timestamp']}.".encode() + got.body
        digest = hmac.new(base64.b64decode(SECRET[6:]), content, hashlib.sha256).digest()
        assert got.headers["webhook-id"] == "7"
        assert got.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


def refresh(endpoint: Hook, **members: str) -> Credential:
    members = {"refreshtokenendpoint": endpoint.url, **members}
    return Credential(credentialtype="REFRESHTOKEN", members=members, secrets={"refreshtoken": "r/1"})


def token(text: str, **more: Any) -> Says:
    return Says(200, body=json.dumps({"access_token": text, "token_type": "Bearer", **more}).encode())


class TestRefreshing:
    """D-31, RFC6749 6."""

    def test_tokens_are_fetched_when_needed(self, serve: Serve) -> None:
        hook = serve(Hook(Says(), Says(401), Says()))
        endpoint = serve(Hook(token("one", refresh_token="r/2"), token("two")))
        hooks, with_refresh = WebhookFactory(), subscription(hook, refresh(endpoint))
        with pytest.raises(DeliveryError, match="401"):
            deliver(with_refresh, policy(hook, endpoint), events(1, 2), hooks)
        deliver(with_refresh, policy(hook, endpoint), events(2), hooks)
        assert [got.headers["authorization"] for got in hook.posts] == ["Bearer one", "Bearer one", "Bearer two"]
        sent = [got.body.decode() for got in endpoint.posts]
        assert sent == [f"grant_type=refresh_token&refresh_token=r%2F{n}" for n in (1, 2)]

    def test_a_token_that_is_over_is_replaced(self, serve: Serve) -> None:
        hook = serve(Hook())
        endpoint = serve(Hook(token("one", expires_in=1), token("two", expires_in=3600)))
        deliver(subscription(hook, refresh(endpoint)), policy(hook, endpoint), events(1, 2, 3))
        assert [got.headers["authorization"][7:] for got in hook.posts] == ["one", "two", "two"]

    @pytest.mark.parametrize(
        "says", [Says(400), Says(200, body=b"<html>"), Says(200, body=b"[]"), token("a\r\nb"), Says(302)]
    )
    def test_endpoint_without_a_token_is_an_error(self, serve: Serve, says: Says) -> None:
        hook, endpoint = serve(Hook()), serve(Hook(always=says))
        with pytest.raises(DeliveryError, match="no access token from localhost") as raised:
            deliver(subscription(hook, refresh(endpoint)), policy(hook, endpoint), events(1))
        assert "r/1" not in str(raised.value)
        assert hook.posts == []


def trickle(handler: BaseHTTPRequestHandler) -> None:
    """Bytes that never become an answer, each in time for itself."""
    stop = threading.Event()
    try:
        while not stop.wait(0.05):
            handler.wfile.write(b"H")
    except OSError:
        pass


def hang(handler: BaseHTTPRequestHandler) -> None:
    """Say nothing until the other end hangs up."""
    handler.rfile.read(1)


def flood(handler: BaseHTTPRequestHandler) -> None:
    """An answer without end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    try:
        while True:
            handler.wfile.write(b"x" * 65536)
    except OSError:
        pass


def heads(handler: BaseHTTPRequestHandler) -> None:
    """Headers without end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    try:
        while True:
            handler.wfile.write(b"X-Y: " + b"z" * 1000 + b"\r\n")
    except OSError:
        pass


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    """Close the connection without a word."""


def babble(handler: BaseHTTPRequestHandler) -> None:
    """Something that is no HTTP."""
    handler.wfile.write(b"220 mail.example.com ESMTP\r\n")


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (hang, "no answer within 0.5 seconds"),
        (trickle, "no answer within 0.5 seconds|connection failed"),
        (heads, "connection failed"),
        (hang_up, "connection failed"),
        (babble, "connection failed"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_hostile_sinks(serve: Serve, act: Callable[[BaseHTTPRequestHandler], None], expected: str) -> None:
    hook = serve(Hook(always=Says(act=act)))
    timeout = 0.5 if "within" in expected else float(DEADLINE)
    with pytest.raises(DeliveryError, match=expected):
        deliver(subscription(hook), policy(hook, timeout=timeout, consent=Consent()), events(1))


def test_an_endless_answer_is_not_read(serve: Serve) -> None:
    """The status is 200, so the event counts as delivered. The rest of the response is ignored, and the next event
    uses another connection.
    """
    hook = serve(Hook(always=Says(act=flood)))
    deliver(subscription(hook), policy(hook), events(1, 2))
    assert hook.ids == [1, 2]


def test_closed_connection_is_replaced_between_events(serve: Serve) -> None:
    hook = serve(Hook(always=Says(204, (("Connection", "close"),))))
    deliver(subscription(hook), policy(hook), events(1, 2, 3))
    assert hook.ids == [1, 2, 3]


def test_connection_failure_is_an_error() -> None:
    hook = Hook()
    with reserved(hook), pytest.raises(DeliveryError, match="connection failed"):
        deliver(subscription(hook), policy(hook), events(1))


class TestTLS:
    """The certificate of the sink is checked (D-33)."""

    def test_trusted_certificate_is_accepted(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        certificates = issue(tmp_path)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
        with serving(Hook(), _context(certificates.both)) as hook:
            deliver(subscription(hook), policy(hook), events(1))
            assert (hook.url[:8], hook.ids) == ("https://", [1])

    def test_untrusted_certificate_is_rejected(self, tmp_path: Path) -> None:
        with serving(Hook(), _context(issue(tmp_path).both)) as hook:
            with pytest.raises(DeliveryError, match="CERTIFICATE_VERIFY_FAILED"):
                deliver(subscription(hook), policy(hook), events(1))
            assert hook.got == []


def _context(both: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(both)
    return context


PUBLIC = policy()


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        ("https://example.com/hook?a=b", ""),
        ("https://example.com:8443", ""),
        ("http://example.com/hook", "/sink: without TLS only places that the operator names"),
        ("ftp://example.com/", "/sink: it takes an https URL"),
        ("https://", "/sink: it takes an https URL"),
        ("https://example.com:99999/", "/sink: it takes an https URL"),
        ("https://exämple.com/", "/sink: it takes an https URL"),
        ("https://example.com/a b", "/sink: it takes an https URL"),
        ("https://example.com/\r\nX: y", "/sink: it takes an https URL"),
        ("https://example.com/" + "a" * 5000, "/sink: it takes an https URL of up to 4096"),
        ("https://me:secret@example.com/", "/sink: names and passwords go into sinkcredential"),
        ("https://127.0.0.1/", "/sink: 127.0.0.1:443 is neither public"),
        ("https://localhost:8443/", "/sink: localhost:8443 is neither public"),
        ("https://169.254.169.254/latest", "/sink: 169.254.169.254:443 is neither public"),
        ("https://[::1]/", "/sink: ::1:443 is neither public"),
        ("https://[::ffff:10.0.0.1]/", "/sink: ::ffff:10.0.0.1:443 is neither public"),
    ],
)
def test_addresses(sink: str, expected: str) -> None:
    """The address must use https, and must not be in a private network (D-28, D-33)."""
    checked = Subscription(id="s", protocol="HTTP", sink=sink)
    if not expected:
        WebhookFactory().check(checked, PUBLIC)
        return
    with pytest.raises(SubscriptionError) as raised:
        WebhookFactory().check(checked, PUBLIC)
    assert str(raised.value).startswith(expected)
    assert "secret" not in str(raised.value)
    with pytest.raises(DeliveryError):
        WebhookFactory().open(checked, PUBLIC)


@pytest.mark.parametrize(
    ("sink", "value"),
    [
        ("https://10.0.0.1/", "10.0.0.1:443"),
        ("http://localhost:9000/hook", "localhost:9000"),
        ("https://[::1]:9000/", "[::1]:9000"),
        ("http://example.com/", "example.com:80"),
    ],
)
def test_a_refusal_names_the_option(sink: str, value: str) -> None:
    """The error names the option that the operator has to set. With the option, the sink is accepted."""
    subscription_ = Subscription(id="s", protocol="HTTP", sink=sink)
    with pytest.raises(SubscriptionError) as raised:
        WebhookFactory().check(subscription_, PUBLIC)
    assert str(raised.value).endswith(f": signalbook serve --allow-sinks {value}")
    WebhookFactory().check(subscription_, replace(PUBLIC, allow=AllowList([value], setting="allow_sinks")))


@pytest.mark.parametrize(
    ("credential", "expected"),
    [
        (Credential(credentialtype="KERBEROS"), "/sinkcredential/credentialtype"),
        (bearer("a\nb"), "/sinkcredential/accesstoken: a header takes printable ASCII"),
        (bearer("a", accesstokentype="é"), "/sinkcredential/accesstokentype"),
        (
            Credential(credentialtype="REFRESHTOKEN", members={"refreshtokenendpoint": "https://10.0.0.1/token"}),
            "/sinkcredential/refreshtokenendpoint: 10.0.0.1:443 is neither public",
        ),
        (Credential(credentialtype="SIGNATURE", secrets={"signingsecret": "x"}), "/sinkcredential/signingsecret"),
    ],
)
def test_invalid_credentials_are_rejected(credential: Credential, expected: str) -> None:
    subscription_ = Subscription(id="s", protocol="HTTP", sink="https://example.com/", credential=credential)
    with pytest.raises(SubscriptionError) as raised:
        WebhookFactory().check(subscription_, PUBLIC)
    assert str(raised.value).startswith(expected)


def test_name_of_an_internal_address_is_rejected_on_connecting(serve: Serve) -> None:
    """The address is looked at with each connection, not only when the subscription was made (DNS rebinding)."""
    hook = serve(Hook())
    port = hook.place.rpartition(":")[2]
    inside = Subscription(id="s", protocol="HTTP", sink=f"http://127.1:{port}/hook")
    allowed = SinkPolicy(allow=AllowList([f"127.1:{port}"]), origin=ORIGIN, timeout=DEADLINE)
    with pytest.raises(DeliveryError, match=r"leads to 127\.0\.0\.1, which is neither public nor"):
        deliver(inside, allowed, events(1))
    assert hook.got == []
