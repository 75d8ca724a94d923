"""Literals and comments of all languages: hostile texts stay data, as compilers read them."""

import re
from html import unescape
from pathlib import Path
from types import ModuleType
from typing import Final, get_args

import pytest
from hypothesis import given, settings
from tests.codegen.conftest import DOCUMENT, GROUP
from tests.codegen.standalone import hard, suite
from tests.codegen.standalone.literals import TEXTS, Language, is_one_line, read_literal, translate_unicode_escapes

from signalbook.codegen.go import records as go
from signalbook.codegen.java import records as java
from signalbook.codegen.rust import records as rust
from signalbook.codegen.typescript import records as typescript

EMITTERS: Final[dict[Language, ModuleType]] = {
    "typescript": typescript, "java": java, "go": go, "rust": rust,
}  # fmt: skip


def words_of(text: str) -> str:
    """Return a text as comments have it: on one line, and without characters that cannot be seen."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


@pytest.mark.parametrize("language", get_args(Language))
@given(text=TEXTS)
def test_a_literal_is_its_text(language: Language, text: str) -> None:
    literal = EMITTERS[language].quoted(text)
    assert read_literal(literal, language) == text
    assert is_one_line(literal)


@given(text=TEXTS)
def test_literals_of_typescript_end_no_script(text: str) -> None:
    assert not re.search(r"</|<!|[/*][#@]", typescript.quoted(text))


@settings(max_examples=10)
@given(text=TEXTS)
def test_pieces_are_the_text(text: str) -> None:
    long = text * 5000
    assert "".join(read_literal(piece, "java") for piece in java.pieces(long[:30_000])) == long[:30_000]


@given(text=TEXTS)
def test_raw_literals_of_go(text: str) -> None:
    literal = go.raw(text)
    assert is_one_line(literal)
    if literal.startswith("`"):
        assert (literal[1:-1], literal.count("`")) == (text, 2)
    else:
        assert read_literal(literal, "go") == text


@given(text=TEXTS)
def test_raw_literals_of_rust(text: str) -> None:
    literal = rust.raw(text)
    assert is_one_line(literal)
    raw = re.fullmatch(r'r(#{1,255})"(.*?)"\1', literal)
    assert (raw[2] if raw else read_literal(literal, "rust")) == text


def test_raw_literals_of_rust_have_a_limit() -> None:
    assert rust.raw('"' + "#" * 254).startswith("r#")
    assert rust.raw('"' + "#" * 255).startswith('"')


@pytest.mark.parametrize("emitter", [typescript, java])
@given(text=TEXTS)
def test_block_comments_end_once_and_have_no_tags(emitter: ModuleType, text: str) -> None:
    (line,) = emitter.comment(text)
    assert is_one_line(line)
    line = translate_unicode_escapes(line) if emitter is java else line
    assert line.startswith("/** ")
    assert line.index("*/", 3) == len(line) - 2
    assert "@" not in line
    assert unescape(line[4:-3]) == words_of(text)


@given(text=TEXTS)
def test_comments_of_go_are_no_build_constraints(text: str) -> None:
    lines = list(go.comment(f"Name: {text}"))
    assert all(line.startswith("// ") and is_one_line(line) for line in lines)
    assert not any(mark in line for line in lines for mark in ("+build", "go:build", "``", "''"))
    assert re.sub(r"// |\s", "", "// ".join(lines)) == re.sub(r"// |\s", "", f"Name:{words_of(text)}")


@given(text=TEXTS)
def test_comments_of_rust_are_no_code(text: str) -> None:
    for line in rust.comment(text):
        assert line.startswith("/// ")
        assert is_one_line(line)
        assert not line.startswith("///     ")
        assert not re.search(r"[`*_\[\]<>~]", re.sub(r"\\.", "", line))
        assert re.sub(r"\\(.)", r"\1", line[4:]) == words_of(text)


@pytest.mark.parametrize("language", get_args(Language))
@given(text=TEXTS)
def test_comments_at_the_top_are_one_line(language: Language, text: str) -> None:
    line = EMITTERS[language].comment_text(text)
    assert is_one_line(line)
    assert "\\u" not in line or language != "java"


GENERATED = Path(__file__).parents[2] / "data" / "generated"
NAMELESS = "its schema has a member without a name, for which Jackson has no annotation"


@pytest.mark.parametrize("target", ["typescript", "java", "go", "rust"])
def test_unsupported_messages_are_omitted(target: str, tmp_path: Path) -> None:
    assert sorted(suite.write(target, tmp_path, DOCUMENT).left_out) == [GROUP + name for name in ("broken", "xml")]
    left_out = suite.write(target, tmp_path / "hard", hard.DOCUMENT).left_out
    assert left_out == ({"/messagegroups/hard/messages/nameless": NAMELESS} if target == "java" else {})


@pytest.mark.parametrize("target", ["go", "java", "rust"])
def test_code_of_messages_equals_the_stored_code(target: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """``make merge`` compiles it. ``pytest --renew`` stores it anew after a change on purpose."""
    files = suite.write(target, tmp_path, DOCUMENT).files
    text = "\n".join(f"==> {file.path} <==\n{file.content.decode()}" for file in files if file.xids)
    stored = GENERATED / f"{target}.txt"
    if request.config.getoption("--renew"):
        stored.write_text(text, encoding="utf-8")
    assert text == stored.read_text(encoding="utf-8")
