"""YAML with a header, in the order it was made in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from signalbook.codegen.base import GeneratedFile, GeneratorInput
from signalbook.values import JSONObject


class _Dumper(yaml.SafeDumper):
    """Writes no anchors: the same value twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - of any
        return True


def yaml_file(given: GeneratorInput, path: str, document: JSONObject, xids: Iterable[str]) -> GeneratedFile:
    """The file of a document about these definitions."""
    named = tuple(sorted(xids))
    head = "".join(f"# {line}\n" for line in given.header(named))
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return GeneratedFile(path=path, content=(head + text).encode(), xids=named)
