"""API tokens: what may be asked for, what they look like, and who knows their secret."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from signalbook.access import tokens
from signalbook.access.base import Identity
from signalbook.access.tokens import InvalidToken, TokenRequest, TooManyTokens
from signalbook.storage.store import Store
from signalbook.values import JSON

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def made(store: Store, **options: object) -> tuple[str, str]:
    """The id and the text of a new token."""
    with store.write() as writer:
        stored, text = tokens.create(writer.tokens, TokenRequest(subject="ci", **options), NOW)  # type: ignore[arg-type]
    return stored.id, text


def test_token_is_found_by_its_secret(store: Store) -> None:
    token_id, text = made(store)
    parts = tokens.split(text)
    assert parts is not None
    assert parts[0] == token_id
    with store.read() as reader:
        stored, none = reader.tokens.get(token_id), reader.tokens.get("x")
    assert tokens.is_secret_of(stored, parts[1])
    assert not tokens.is_secret_of(stored, parts[1][::-1])
    assert not tokens.is_secret_of(none, parts[1])
    # What stands for a token that is not there is no secret of it.
    assert not tokens.is_secret_of(none, "")
    assert parts[1] not in repr(stored)


def test_tokens_are_unique(store: Store) -> None:
    assert len({part for _ in range(20) for part in made(store)}) == 40


@pytest.mark.parametrize("place", range(0, 66, 5))
def test_mistyped_token_is_rejected(store: Store, place: int) -> None:
    _, text = made(store)
    other = "x" if text[place] != "x" else "y"
    assert tokens.split(text) is not None
    assert tokens.split(text[:place] + other + text[place + 1 :]) is None


@pytest.mark.parametrize("text", ["", "sbk_", "sbk_a_b", "sbk_" + "a" * 12 + "_" + "b" * 49, "é" * 66, "sbk_\n"])
def test_malformed_token_is_rejected(text: str) -> None:
    assert tokens.split(text) is None


def test_scanners_recognise_a_token_by_its_form(store: Store) -> None:
    _, text = made(store)
    match = tokens.TOKEN.search(f'"authorization": "Bearer {text}"')
    assert match is not None
    assert match[0] == text


def test_token_acts_with_its_subject_groups_and_scopes(store: Store) -> None:
    token_id, _ = made(store, groups=("a", "b"), scopes=("read", "list"))
    with store.read() as reader:
        stored = reader.tokens.get(token_id)
    assert stored is not None
    expected = Identity(subject="ci", groups=frozenset("ab"), token=token_id, scopes=frozenset({"read", "list"}))
    assert tokens.identity(stored) == expected
    assert tokens.identity(replace(stored, scopes=None)).scopes is None
    assert "hash" not in tokens.describe(stored)
    assert stored.hash not in str(tokens.describe(stored))


def test_number_of_tokens_is_limited(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_TOKENS", 1)
    made(store)
    with pytest.raises(TooManyTokens, match="revoke"):
        made(store)


def test_valid_token_requests_are_read() -> None:
    assert tokens.read_request({"subject": "ci"}, NOW) == TokenRequest(subject="ci", expires=NOW + timedelta(days=90))
    request: JSON = {"subject": "a b", "groups": ["x", "x"], "scopes": ["read"], "expires": None, "note": "n"}
    assert tokens.read_request(request, NOW) == TokenRequest(subject="a b", groups=("x",), scopes=("read",), note="n")
    later = tokens.read_request({"subject": "ci", "expires": "2030-01-01T02:00:00+01:00"}, NOW)
    assert later.expires == NOW + timedelta(hours=1)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], ""),
        ({}, "/subject"),
        ({"subject": ""}, "/subject"),
        ({"subject": "a\nb"}, "/subject"),
        ({"subject": " a"}, "/subject"),
        ({"subject": "x" * 257}, "/subject"),
        ({"subject": 1}, "/subject"),
        ({"subject": "a", "groups": "x"}, "/groups"),
        ({"subject": "a", "groups": [1]}, "/groups"),
        ({"subject": "a", "groups": ["x"] * 201}, "/groups"),
        ({"subject": "a", "scopes": []}, "/scopes"),
        ({"subject": "a", "scopes": ["reads"]}, "/scopes"),
        ({"subject": "a", "scopes": [["read"]]}, "/scopes"),
        ({"subject": "a", "expires": "2029-12-31T00:00:00Z"}, "/expires"),
        ({"subject": "a", "expires": "soon"}, "/expires"),
        ({"subject": "a", "expires": 7}, "/expires"),
        ({"subject": "a", "note": 7}, "/note"),
        ({"subject": "a", "days": 7}, "/days"),
    ],
)
def test_invalid_token_request_is_rejected(document: JSON, path: str) -> None:
    with pytest.raises(InvalidToken) as error:
        tokens.read_request(document, NOW)
    assert [fault.path for fault in error.value.faults] == [path]


def test_every_fault_is_named() -> None:
    with pytest.raises(InvalidToken) as error:
        tokens.read_request({"groups": 1, "scopes": 2, "expires": 3, "note": 4, "x": 5}, NOW)
    assert {fault.path for fault in error.value.faults} == {
        "/subject", "/groups", "/scopes", "/expires", "/note", "/x",
    }  # fmt: skip
