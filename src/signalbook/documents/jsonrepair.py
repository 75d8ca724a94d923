"""Repair damaged JSON, and report every repair with its line.

Published documents are damaged in a few ways: comments, missing or surplus commas, raw newlines in strings, a missing
colon, an object inside an object without a key, a missing or surplus closing bracket. Only this damage is repaired. It
is done only on request (``import --lenient``).
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from signalbook.documents.errors import DocumentError, Repair, line_of
from signalbook.values import JSON

_SPACE: Final = re.compile(r"[ \t\r\n\ufeff]*")
_COMMENT: Final = re.compile(r"//[^\n]*|#[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_SCALAR: Final = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", re.ASCII)


def repair_json(text: str, *, max_depth: int) -> tuple[JSON, tuple[Repair, ...]]:
    """Return the value of damaged JSON, and the repairs in the order of the text.

    Raises ``DocumentError`` with the line of any other mistake, and for nesting beyond ``max_depth``.
    """
    reader = _Reader(text, max_depth)
    return reader.read_document(), tuple(reader.repairs)


class _Reader:
    """A JSON parser that continues after known kinds of damage."""

    def __init__(self, text: str, max_depth: int) -> None:
        self.text = text
        self.at = 0
        self.depth = max_depth
        self.repairs: list[Repair] = []

    def read_document(self) -> JSON:
        value = self.read_value()
        while self.peek() in ("}", "]", ","):
            self.record_repair("L-33", f"took away a surplus {self.peek()}")
            self.at += 1
        if self.peek():
            raise self.build_error("the document ends before this")
        return value

    def read_value(self) -> JSON:
        ahead = self.peek()
        if ahead in ("{", "["):
            if self.depth == 0:
                raise self.build_error("nested too deep")
            # Counted by hand: the stack of Python would overflow earlier than the limit that callers give.
            self.depth -= 1
            value = self.read_object() if ahead == "{" else self.read_array()
            self.depth += 1
            return value
        return self.read_string() if ahead == '"' else self.read_scalar()

    def read_object(self) -> dict[str, Any]:
        members: dict[str, Any] = {}
        self.at += 1
        while not self.take_end("}"):
            if self.peek() == "{":
                self.record_repair("L-16", "took an object without a key as members of the object around it")
                # In published documents with this damage, a key is missing, and the inner object is meant as a member.
                members.update(self.read_value())
            elif self.peek() == '"':
                key = self.read_string()
                self.take_colon()
                members[key] = self.read_value()
            else:
                raise self.build_error("here a member needs to start with its key in double quotes")
            self.take_comma("}")
        return members

    def read_array(self) -> list[Any]:
        elements: list[Any] = []
        self.at += 1
        while not self.take_end("]"):
            elements.append(self.read_value())
            self.take_comma("]")
        return elements

    def take_end(self, bracket: str) -> bool:
        """Return True if the object or array ends here, and move past its bracket."""
        ahead = self.peek()
        if ahead == bracket:
            self.at += 1
        elif ahead == "":
            self.record_repair("L-37", f"added the closing {bracket} that the end of the document lacks")
        elif ahead in ("}", "]"):
            raise self.build_error(f"{ahead} stands where {bracket} is expected")
        return ahead in (bracket, "")

    def take_colon(self) -> None:
        if self.peek() == ":":
            self.at += 1
        elif self.peek() in ("{", "["):
            self.record_repair("L-28", f"added the colon before {self.peek()}")
        else:
            raise self.build_error("here a colon is expected")

    def take_comma(self, bracket: str) -> None:
        """Move past the comma between two members."""
        if self.peek() == ",":
            comma = self.at
            self.at += 1
            if self.peek() in (bracket, ""):
                self.record_repair("L-1", f"took away the comma before {self.peek() or 'the end'}", comma)
        elif self.peek() not in (bracket, ""):
            self.record_repair("L-1", "added a comma between two members", len(self.text[: self.at].rstrip()))

    def read_string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            raise self.build_error("a string that starts here has no end")
        raw = match[0]
        if _CONTROL.search(raw):
            self.record_repair("L-17", "took a raw line break or control character in a string as it is")
        try:
            value: str = json.loads(raw, strict=False)
        except json.JSONDecodeError as error:
            raise self.build_error(f"a string with a fault: {error.msg}") from None
        self.at = match.end()
        return value

    def read_scalar(self) -> JSON:
        match = _SCALAR.match(self.text, self.at)
        if match is None:
            raise self.build_error(
                "here a value is expected" if self.peek() else "the document ends where a value is expected"
            )
        try:
            value: JSON = json.loads(match[0])
        except ValueError:  # thousands of digits
            raise self.build_error("a number with too many digits") from None
        self.at = match.end()
        return value

    def peek(self) -> str:
        """Move to the next character that is not blank or in a comment, and return it, or "" at the end."""
        while True:
            self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr] # matches the empty string
            comment = _COMMENT.match(self.text, self.at)
            if comment is None:
                return self.text[self.at : self.at + 1]
            self.record_repair("L-26", "took away a comment")
            self.at = comment.end()

    def record_repair(self, rule: str, message: str, at: int | None = None) -> None:
        line = line_of(self.text, self.at if at is None else at)
        self.repairs.append(Repair(line=line, message=message, rule=rule))

    def build_error(self, message: str) -> DocumentError:
        return DocumentError(f"line {line_of(self.text, self.at)}: {message}")
