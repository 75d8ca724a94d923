"""Schemas of other days (domain I-6, I-7, L-33)."""

from __future__ import annotations

import re
from typing import Final

from signalbook.documents.lenient.page import Page
from signalbook.values import JSON

_NO_CODE: Final = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_DAMAGED: Final = re.compile(r"(.+)version", re.DOTALL)


def mend_schema(page: Page) -> None:
    """The attributes of a schema, its Versions apart, and what those have of it."""
    mend_schema_version(page)
    shared = page.body.get("format")
    for version in page.entities("versions"):
        stated = version.body.get("format")
        if isinstance(shared, str) and stated is None:
            version.change("format", shared, f"took {shared} from the schema", "I-6")
        if isinstance(stated, str) and (match := _DAMAGED.fullmatch(stated)):
            version.change("format", match[1], f"was {stated}", "I-6")
    _one_format(page)


def _one_format(page: Page) -> None:
    """Versions of one format's different versions: the name alone is what they share, and have to (G-4)."""
    pages = [page, *page.entities("versions")]
    stated = {stated for each in pages if isinstance(stated := each.body.get("format"), str)}
    names = {text.partition("/")[0].lower() for text in stated}
    if len({text.lower() for text in stated}) > 1 and len(names) == 1:
        for each in pages:
            if "format" in each.body:
                name = each.body["format"].partition("/")[0]
                each.change("format", name, f"was {each.body['format']}; all Versions have one format", "G-4")


def mend_schema_version(page: Page) -> None:
    """The attributes of a Version of a schema, or those of a schema's default Version."""
    page.rename("schemauri", "schemaurl", "I-7")
    page.rename("schemaformat", "format", "I-6")
    mend_protobuf(page, "schema", page.body.get("format"))


def mend_protobuf(page: Page, name: str, format: JSON) -> None:
    """Protobuf text that ends in one brace too many (L-33)."""
    text = page.body.get(name)
    if not isinstance(text, str) or not str(format).lower().startswith("protobuf"):
        return
    code = _NO_CODE.sub("", text)
    if code.count("}") == code.count("{") + 1 and text.rstrip().endswith("}"):
        page.change(name, text.rstrip()[:-1].rstrip() + "\n", "took away the surplus } at its end", "L-33")
