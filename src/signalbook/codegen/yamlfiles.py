"""YAML with a header, in the order it was made in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

from signalbook.codegen.base import GeneratedFile, GeneratorInput
from signalbook.values import JSONObject


class _Dumper(yaml.SafeDumper):
    """A writer of documents that readers of YAML 1.1 and of YAML 1.2 understand alike, without anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - of any
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Return the node of a text, in double quotes if it has characters that only one version sees as line breaks.

        Such characters have escapes in double quotes.
        """
        style = None if data.replace("\n", "").isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)
# Texts such as 1e3, 0o17 and 08 are numbers in YAML 1.2 alone: they need quotes.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|0o[0-7]+$"),
    "-+.0123456789",
)


def yaml_file(input: GeneratorInput, path: str, document: JSONObject, xids: Iterable[str]) -> GeneratedFile:
    """The file of a document about these definitions."""
    sorted_xids = tuple(sorted(xids))
    head = "".join(f"# {line}\n" for line in input.header(sorted_xids))
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return GeneratedFile(path=path, content=(head + text).encode(), xids=sorted_xids)
