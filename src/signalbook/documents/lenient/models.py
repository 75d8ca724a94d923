"""Models of other days (core l-18, domain F-56), and one that today's specification has no room for."""

from __future__ import annotations

from typing import Final

from signalbook.documents.lenient.page import Page

_GONE: Final = ("setdefaultversionsticky", "matchcase")
# A Resource type with this singular has a document in an attribute that every Version has for something else.
TAKEN: Final = "format"


def mend_model(page: Page) -> None:
    """A model source."""
    for group in _types(page, "groups"):
        _aspects(group)
        for resource in _types(group, "resources"):
            _aspects(resource)
            if resource.body.get("singular") == TAKEN:
                resource.change("singular", f"{group.body.get('singular', '')}{TAKEN}", f"was {TAKEN}", "rc4")


def _types(page: Page, name: str) -> list[Page]:
    members = page.member(name)
    return list(members.members()) if members else []


def _aspects(page: Page) -> None:
    page.rename("compatiblewith", "modelcompatiblewith", "F-56")
    for name in _GONE:
        page.drop(name, "the model language has it no more", "F-56")
