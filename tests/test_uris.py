import pytest

from signalbook.uris import hide_user, is_address, is_secure, is_uri, is_uri_reference, user_of, without_user


@pytest.mark.parametrize(
    ("text", "absolute", "reference"),
    [
        ("https://example.com/a?b=c#d", True, True),
        ("urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66", True, True),
        ("mailto:a@b.example", True, True),
        ("/depots/1", False, True),
        ("1-555-123-4567", False, True),
        ("a%20b", False, True),
        ("a%2", False, False),
        ("a b", False, False),
        ("é", False, False),
        ("a#b#c", False, False),
        ("", False, False),
        ("a\n", False, False),
        ("{x}", False, False),
    ],
)
def test_uris(text: str, absolute: bool, reference: bool) -> None:
    """K-19, K-24"""
    assert (is_uri(text), is_uri_reference(text)) == (absolute, reference)


@pytest.mark.parametrize(
    ("url", "bare", "user"),
    [
        ("https://example.com:1/a@b?c@d#e", "https://example.com:1/a@b?c@d#e", None),
        ("https://me:a%40b@example.com:1/a?b#c", "https://example.com:1/a?b#c", ("me", "a@b")),
        ("https://me@[::1]/", "https://[::1]/", ("me", "")),
        ("https://:secret@example.com", "https://example.com", ("", "secret")),
        ("/a@b", "/a@b", None),
    ],
)
def test_users_in_urls(url: str, bare: str, user: tuple[str, str] | None) -> None:
    assert (without_user(url), user_of(url)) == (bare, user)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://me:a/b@h/x", "https://h/x"),
        ("https://me:a@b#?/\n@h/x", "https://h/x"),
        ("https://me:a@[h", "https://[h"),
        ("https://h:x/a", "https://h:x/a"),
        ("me:a@h", "h"),
        ("", ""),
    ],
)
def test_users_are_hidden_in_malformed_urls(text: str, expected: str) -> None:
    assert hide_user(text) == expected
    if "//" in text and not is_address(text):
        assert without_user(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://example.com", True),
        ("https://me:secret@[::1]:8080/registry", True),
        ("http://[", False),
        ("http://example.com:99999", False),
        ("http://example.com:0", False),
        ("http://:80", False),
        ("ftp://example.com", False),
        ("example.com", False),
        ("", False),
    ],
)
def test_addresses(text: str, expected: bool) -> None:
    assert is_address(text) is expected


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://i.example/x", True), ("http://i.example", False), ("http://localhost:1", True),
        ("http://127.0.0.2:1", True), ("http://[::1]:1", True), ("http://localhost.example", False),
        ("http://127.0.0.1.example", False), ("ftp://i.example", False), ("https://u:p@i.example", False),
        ("https://", False), ("https://i.example#x", False), ("", False),
    ],
)  # fmt: skip
def test_only_https_and_local_addresses_are_secure(url: str, safe: bool) -> None:
    assert is_secure(url) is safe
