"""Documents as HTML: whatever is in one, making its page stays cheap."""

from html.parser import HTMLParser

import pytest

from signalbook.api.ui.documents import format_json, render_document, render_highlighted

BEGUN = {"protobuf": ("/* ", "/\\\n* "), "xml": ("<!--", "<?", "<![CDATA[", "&", "<a b:b:b:"), "json": ("@ ", "'")}


def words(markup: str) -> str:
    parts: list[str] = []
    parser = HTMLParser()
    parser.handle_data = parts.append  # type: ignore[method-assign, assignment]
    parser.feed(markup)
    parser.close()
    return "".join(parts)


@pytest.mark.parametrize(("language", "begun"), [(name, opening) for name, some in BEGUN.items() for opening in some])
def test_repeated_openings_are_plain_text(language: str, begun: str) -> None:
    # Each is looked for to the end of the text: a second for 16 KB.
    text = begun * (15_000 // len(begun))
    markup, cut = render_highlighted(text, language)
    assert (words(markup), cut) == (text, False)
    assert "<span" not in markup


def test_deeply_nested_json_is_plain_text() -> None:
    document = render_document(b"[" * 5_000, contenttype="", format="Own/1")
    assert words(document.markup) == "[" * 5_000


def test_deep_json_is_not_indented() -> None:
    def nest(depth: int, numbers: int) -> str:
        return "[" * depth + ",".join("0" * numbers) + "]" * depth

    assert format_json(nest(64, 1_000)).startswith("[\n  [\n    [")
    for deep in (nest(65, 1_000), nest(64, 100_000)):
        assert format_json(deep) == deep
    brackets = "[" * 65
    assert format_json(f'{{"pattern":"{brackets}"}}') == f'{{\n  "pattern": "{brackets}"\n}}'


def test_a_document_with_a_few_mistakes_is_highlighted() -> None:
    text = '{"a": 1, b: @, "c": "</script><script>"}'
    markup, cut = render_highlighted(text, "json")
    assert "<span" in markup
    assert "<script" not in markup
    assert (words(markup), cut) == (text, False)
