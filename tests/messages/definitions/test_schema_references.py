import pytest

from signalbook.messages.definitions.schemas import find_named_version, readings, resource_of

S = "/schemagroups/g/schemas/s"


@pytest.mark.parametrize(
    ("uri", "there", "expected"),
    [
        pytest.param(S, S, (S, ""), id="xid"),
        pytest.param(f"{S}:Record", S, (S, "Record"), id="G-15-colon"),
        pytest.param(f"{S}:v1", f"{S}:v1", (f"{S}:v1", ""), id="G-15-id-with-colon"),
        pytest.param(f"{S}:v1:Record", f"{S}:v1", (f"{S}:v1", "Record"), id="G-15-last-colon"),
        pytest.param(f"{S}/versions/v1:Payload", f"{S}/versions/v1", (f"{S}/versions/v1", "Payload"), id="version"),
        pytest.param(f"{S}:messages/STATE", S, (S, "messages/STATE"), id="G-15-pointer-without-slash"),
        pytest.param(f"{S}#/definitions/a", S, (S, "/definitions/a"), id="G-2-fragment"),
        pytest.param(f"#{S}", S, (S, ""), id="I-3-local-fragment"),
        pytest.param(f"#{S}:Record", S, (S, "Record"), id="I-3-local-fragment-link"),
        pytest.param(f"https://r.example:8080{S}:R", f"https://r.example:8080{S}", (f"https://r.example:8080{S}", "R"),
                     id="I-3-url"),
        pytest.param(f"https://x.example/f.json#{S}", f"https://x.example/f.json#{S}",
                     (f"https://x.example/f.json#{S}", ""), id="I-3-file-url"),
        pytest.param(f"https://x.example/f.json#{S}:R", f"https://x.example/f.json#{S}",
                     (f"https://x.example/f.json#{S}", "R"), id="I-3-file-url-link"),
    ],
)  # fmt: skip
def test_first_existing_reading_of_a_uri_is_used(uri: str, there: str, expected: tuple[str, str]) -> None:
    """G-15, G-16, I-3"""
    assert next(reading for reading in readings(uri) if reading[0] == there) == expected


def test_hostile_references_have_few_readings() -> None:
    assert len(list(readings("/" + ":" * 10_000 + "#" * 10_000))) < 40


def test_no_reading_splits_scheme_or_authority() -> None:
    assert "https" not in {base for base, _ in readings("https://x.example:80/a:b")}
    assert "https://x.example" not in {base for base, _ in readings("https://x.example:80/a:b")}


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (f"https://r.example/base{S}/versions/3", f"{S}/versions/3"),
        (f"https://r.example{S}/versions/3$details", f"{S}/versions/3"),
        (f"https://r.example{S}/versions/3?x=1#y", f"{S}/versions/3"),
        (f"https://r.example{S}", S),
        (f"https://r.example{S}:Record", S),
        (f"https://r.example{S}2/versions/3", None),
        (f"https://r.example{S}/versions/3/meta", None),
        ("https://r.example/other", None),
    ],
)
def test_the_version_a_dataschema_names(uri: str, expected: str | None) -> None:
    """A dataschema can name a version of the schema (K-39)."""
    assert find_named_version(uri, S) == expected


def test_the_resource_of_a_version() -> None:
    assert resource_of(f"{S}/versions/1") == resource_of(S) == S
