"""The errors of the specification as a table, and the error that the kit itself raises.

Source: xRegistry 1.0-rc4 core/spec.md "Error Processing" and core/http.md "Error Processing".
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Final

import msgspec

PLACEHOLDER: Final = re.compile(r"<([a-z][a-z0-9_]*)>")


class KitError(Exception):
    """The root of the errors that the kit raises on purpose. Its text is fit to show a person."""


class ErrorDefinition(msgspec.Struct, frozen=True):
    """An error of the specification: its HTTP status, and its title with ``<name>`` placeholders."""

    status: int
    title: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the title's placeholders, in order, without ``subject``."""
        return tuple(dict.fromkeys(name for name in PLACEHOLDER.findall(self.title) if name != "subject"))


CATALOGUE: Final = msgspec.json.decode(
    (resources.files("xregistry_conformance") / "data" / "errors.json").read_bytes(), type=dict[str, ErrorDefinition]
)
"""The errors of the specification by their codes."""
