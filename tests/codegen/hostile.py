"""Texts that break out of literals, names, comments and templates, and definitions with such texts everywhere."""

from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st

HOSTILE: Final = (
    "it's", '"', "'''", '"""', "`", "``", "\\", "\\\\'", "a\\", "\\'; DROP TABLE x; --", "a; DROP TABLE x; --", "\n",
    "a\nb", "\r\n", "a\u2028b", "\u2029", "\x00", "\x1b[31m", "\x85", "\ufeff", "\u202eab", "\u2066ab", "\U0001f600",
    "*/", "/*", "--", "-->", "--->", "--!>", "<!--", "#", "//", "${env:HOME}", "${system:user.home}", "${x}",
    "$${env:HOME}", "$", "{{ 7 * 7 }}", "{{{ 7 * 7 }}", "{{", "}}", "{% raw %}", "{%- set x = 1 %}", "{# x #}", "%}",
    "#}", "{{ env_var('HOME') }}", "env_var('HOME')", " var('x') ", "a' || 'b", "</script>",
    "<script>alert(1)</script>", "<img src=x onerror=y>", "[x](javascript:y)", "![x](y)", "a|b", "\\|<b>", "\\|`",
    "- x", "1. x", "---", "===", "::: x", " a", "a ", "  ", "a  b", "\t", "<% ctx.env.HOME %>", "&{ x }", "&amp;",
    "R&D", "%s", "%(x)s", "{}", "{x}", "~", "null", "yes", "1e3", "0o17", "08", "=", "<<", "2026-01-01", "- a: b",
    ": ", " #x", "&a", "*a", "!x", "@x", "%x", "?", "x:", "\\u0041", "\\N{BULLET}", "\\x41",
    "a', StringType(), True), __import__('os').abort() or StructField('b",
)  # fmt: skip
"""A text of each kind."""


CHARACTERS: Final = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)


def texts(count: int = 3) -> st.SearchStrategy[list[str]]:
    """Draw hostile texts and random ones, alone and joined, that differ in more than case."""
    piece = st.sampled_from(HOSTILE) | CHARACTERS
    joined = st.lists(piece, min_size=1, max_size=3).map("".join)
    return st.lists(joined, min_size=count, max_size=count, unique_by=str.casefold)


def entity_id(text: str) -> str:
    """Return ``text`` as an id: ids out of documents may have everything but slashes and question marks."""
    return text.replace("/", "|").replace("?", "!")


def document(texts: Sequence[str]) -> dict[str, Any]:
    """Return a registry with each text in every place that a definition has for texts.

    The group ``all`` has one message with a column for each text; each text also has a group and a message of its own.
    """
    groups = {
        entity_id(text): {"name": text, "description": text, "messages": {entity_id(text): _message(text)}}
        for text in texts
    }
    every = _message("all") | {"dataschema": payload(texts)}
    return {
        "name": texts[0],
        "description": texts[0],
        "messagegroups": groups | {"all": {"messages": {"all": every}}},
        "endpoints": {
            f"e{entity_id(text)}": {
                "usage": ["producer"],
                "protocol": "KAFKA",
                "messagegroups": [f"/messagegroups/{entity_id(text)}"],
                "protocoloptions": {"topic": text, "endpoints": [{"uri": f"http://{text}/x"}]},
            }
            for text in texts
        },
    }


def payload(texts: Sequence[str]) -> dict[str, Any]:
    """Return a schema of an object with two columns for each text: a nested object and an enum."""
    columns = {text: _nested(text) for text in texts}
    choices = {f"choice {number}": {"enum": [text, "other"]} for number, text in enumerate(texts)}
    return {"type": "object", "properties": columns | choices, "required": list(choices), "title": texts[0]}


def _nested(text: str) -> dict[str, Any]:
    members = {
        text: {"type": "string", "description": text, "default": text},
        "fixed member": {"const": text},
        "chosen member": {"enum": [text, "other"], "title": text},
    }
    return {"type": "object", "description": text, "additionalProperties": False, "properties": members}


def _message(text: str) -> dict[str, Any]:
    return {
        "name": text,
        "description": text,
        "labels": {"label": text},
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {"type": {"value": "t"}, "subject": {"type": "string", "description": text}},
        "protocol": "KAFKA",
        "protocoloptions": {"topic": "t", "headers": {text: {"value": text}}},
        "dataschemaformat": "JsonSchema/draft-07",
        "dataschema": payload([text]),
    }
