"""A JSON value as a document for people: indented JSON, or YAML."""

from __future__ import annotations

from typing import Final

import yaml

from signalbook.values import JSON, dump_json

_YAML: Final = (".yaml", ".yml")
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def write_document(value: JSON, *, name: str = "") -> bytes:
    """``value`` as text in the form that the file name ``name`` asks for: YAML or JSON. ``parse_document`` reads it."""
    if name.lower().endswith(_YAML):
        text: str = yaml.dump(value, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=120)
        return text.encode()
    return dump_json(value, indent=2) + b"\n"
