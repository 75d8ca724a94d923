"""A JSON value as a document for people: YAML, or indented JSON, of a long text without ever holding all of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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


# A whole string, a bracket or comma or colon, a run of anything else, or the beginning of a string that goes on.
_TOKEN: Final = re.compile(rb'("(?:[^"\\]|\\.)*")|([\[\]{},:])|([^"\[\]{},:\s]+)|(".*)', re.DOTALL)
_OPEN: Final = frozenset(b"[{")
_CLOSE: Final = frozenset(b"]}")


def indent(pieces: Iterable[bytes], *, width: int = 2) -> Iterator[bytes]:
    """The JSON text that ``pieces`` make, with each member on a line of its own, and a line break at the end.

    The same text as ``dump_json(value, indent=2)``, whatever the pieces begin and end with.
    """
    writer = _Writer(width)
    rest = b""
    for piece in pieces:
        written, rest = writer.take(rest + piece, final=False)
        yield written
    written, _ = writer.take(rest, final=True)
    yield written + b"\n"


class _Writer:
    def __init__(self, width: int) -> None:
        self._width = width
        self._depth = 0
        self._opened = False

    def take(self, text: bytes, *, final: bool) -> tuple[bytes, bytes]:
        """What can be written of ``text``, and what has to wait for more."""
        written = bytearray()
        for token in _TOKEN.finditer(text):
            unfinished = token[4] is not None or (token[3] is not None and token.end() == len(text))
            if unfinished and not final:
                return bytes(written), text[token.start() :]
            self._write(written, token[0])
        return bytes(written), b""

    def _write(self, written: bytearray, token: bytes) -> None:
        first = token[0]
        if first in _CLOSE:
            self._depth -= 1
            written += token if self._opened else self._break() + token
        elif token == b",":
            written += token + self._break()
        elif token == b":":
            written += b": "
        else:
            written += self._break() + token if self._opened else token
        self._opened = first in _OPEN
        self._depth += first in _OPEN

    def _break(self) -> bytes:
        return b"\n" + b" " * (self._width * self._depth)
