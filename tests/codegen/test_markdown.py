"""Pages."""

from collections.abc import Iterator, Sequence

from hypothesis import HealthCheck, example, given, settings
from markdown_it import MarkdownIt
from markdown_it.token import Token
from tests.codegen.conftest import Make
from tests.codegen.hostile import HOSTILE, document, entity_id, texts

from signalbook.codegen.base import printable

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def test_pages(make: Make) -> None:
    files = {file.path: file.content.decode() for file in make("markdown").files}
    page = files["groups/shop.orders.md"]
    assert "[shop.orders](groups/shop.orders.md): 6 messages. To the door." in files["README.md"]
    # what people write in descriptions is shown and does not become markup, a row or a comment
    assert "It's \\<b\\>placed\\</b\\> '; DROP TABLE x; --" in page
    assert "| `total` | number | yes | `minimum 0` | Euros \\| cents |" in page
    assert "| `buyer.e-mail` | string |" in page
    assert "| `source` | `uritemplate` | `/shops/{shop}` | yes |" in page
    assert "A producer gives: `shop`, and the payload." in page
    assert all(line.endswith("-->") and line.count("--") == 2 for line in page.splitlines() if line[:4] == "<!--")


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=texts())
@example(texts=[*HOSTILE])
def test_hostile_texts_are_escaped(make: Make, texts: list[str]) -> None:
    """Parse the pages, and look for the texts; what is no text comes from the generator alone."""
    generated = make("markdown", document(texts))
    pages = {file.path: file.content.decode() for file in generated.files}
    tokens = {path: list(flatten(PARSER.parse(page))) for path, page in pages.items()}
    for path, page in tokens.items():
        kinds = {token.type for token in page}
        assert not kinds & {"html_inline", "image", "fence", "code_block", "hr", "blockquote_open", "ordered_list_open"}
        assert "link_open" not in kinds or path == "README.md"
        comments = [line for token in page if token.type == "html_block" for line in token.content.splitlines()]
        assert all(line.startswith("<!-- ") and line.find("--", 4) == len(line) - 3 for line in comments)
        # sites run templates in text and in code
        assert not any(start in pages[path] for start in ("{{", "{%", "{#"))
    links = [str(token.attrs["href"]) for token in tokens["README.md"] if token.type == "link_open"]
    assert len(links) == len(pages) - 1
    assert all(link.startswith("groups/") for link in links)
    rendered = {content for page in tokens.values() for content in contents(page)}
    for text in texts:
        expected = {text, entity_id(text), f"{text}.{text}", f"{text}.fixed member"}
        assert set(map(show, expected)) - {""} <= rendered


def flatten(tokens: Sequence[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from flatten(token.children or ())


def contents(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield what a reader sees of each paragraph, heading and cell."""
    for token in tokens:
        if token.type == "inline":
            yield show("".join(child.content for child in token.children or ()))


def show(text: str) -> str:
    """Return a text as pages show it: on one line, with single spaces."""
    return " ".join(printable(text).split())
