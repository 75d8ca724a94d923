"""Parse the text of an expression into a tree (cesql/spec.md 2, precedence by 3.6), and cast values (3.1, 3.3, 3.7)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from signalbook.errors import SignalbookError

Value = str | int | bool

LEAST: Final = -(2**31)
MOST: Final = 2**31 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_BOOLEANS: Final = {"true": True, "false": False}


class ErrorKind(StrEnum):
    """The kind of an evaluation error. The expression has a value despite the error."""

    MATH = "math"
    CAST = "cast"
    MISSING_ATTRIBUTE = "missingAttribute"
    MISSING_FUNCTION = "missingFunction"
    FUNCTION_EVALUATION = "functionEvaluation"


class ValueType(StrEnum):
    """The three types of values."""

    STRING = "String"
    INTEGER = "Integer"
    BOOLEAN = "Boolean"

    @property
    def zero(self) -> Value:
        """The value that is used when a value of this type could not be computed."""
        return _ZEROS[self]


_ZEROS: Final[dict[ValueType, Value]] = {ValueType.STRING: "", ValueType.INTEGER: 0, ValueType.BOOLEAN: False}


def type_of(value: Value) -> ValueType:
    """Return the type of ``value``. Python's booleans are Boolean here, not Integer."""
    if isinstance(value, bool):
        return ValueType.BOOLEAN
    return ValueType.INTEGER if isinstance(value, int) else ValueType.STRING


def attribute(value: object) -> Value:
    """Return a context attribute as a value. A value of any other type becomes a String (3.2)."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int) and LEAST <= value <= MOST:
        return value
    return str(value)


def text(value: object) -> str:
    """Return a context attribute as a String."""
    plain = attribute(value)
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


def cast(value: Value, type: ValueType, errors: list[ErrorKind]) -> Value:
    """Return ``value`` as ``type``. If that is impossible, add an error and return the zero value (3.7)."""
    if type is ValueType.STRING:
        return text(value)
    if type is ValueType.BOOLEAN:
        return to_boolean(value, errors)
    return to_integer(value, errors)


def to_boolean(value: Value, errors: list[ErrorKind]) -> bool:
    """Return ``value`` as a Boolean. If that is impossible, add an error and return False."""
    if not isinstance(value, str):
        return bool(value)
    boolean = _BOOLEANS.get(value.lower())
    if boolean is None:
        errors.append(ErrorKind.CAST)
    return bool(boolean)


def to_integer(value: Value, errors: list[ErrorKind]) -> int:
    """Return ``value`` as an Integer. If that is impossible, add an error and return 0."""
    if not isinstance(value, str):
        return int(value)
    if _INTEGER.fullmatch(value) and LEAST <= int(value) <= MOST:
        return int(value)
    errors.append(ErrorKind.CAST)
    return 0


def check_range(number: int, errors: list[ErrorKind]) -> int:
    """Return ``number``. If it needs more than 32 bits, add an error and return 0."""
    if LEAST <= number <= MOST:
        return number
    errors.append(ErrorKind.MATH)
    return 0


MAX_LENGTH: Final = 4096
MAX_TERMS: Final = 256
MAX_DEPTH: Final = 32
_TOKEN_PATTERN: Final = re.compile(
    r"""\s*(?:(?P<word>[A-Za-z0-9_]+)
          |(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
          |(?P<sign><=|>=|<>|!=|[=<>+\-*/%(),]))""",
    re.VERBOSE | re.DOTALL,
)
_FUNCTION: Final = re.compile(r"[A-Za-z][A-Za-z_]*")
_KEYWORDS: Final = frozenset({"AND", "OR", "XOR", "NOT", "LIKE", "EXISTS", "IN", "TRUE", "FALSE"})
# Operators of one line are evaluated from left to right. Each line binds tighter than the line before.
_LEVELS: Final = (
    frozenset({"AND", "OR", "XOR"}),
    frozenset({"=", "!=", "<>", ">=", "<=", ">", "<"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)
_END: Final = ""


class ParseError(SignalbookError):
    """The error for invalid expressions. The message has the position of the problem, in characters counted from 1."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal value."""

    value: Value


@dataclass(frozen=True, slots=True)
class AttributeReference:
    """A context attribute, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class ExistsOperation:
    """A test for the presence of an attribute."""

    name: str


@dataclass(frozen=True, slots=True)
class UnaryOperation:
    """The operator ``NOT`` or ``-`` with its operand."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class BinaryOperation:
    """An operator between two operands."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class LikeOperation:
    """A comparison with a LIKE pattern."""

    operand: Node
    pattern: str
    negated: bool


@dataclass(frozen=True, slots=True)
class InOperation:
    """A test whether a value is a member of a set."""

    operand: Node
    members: tuple[Node, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of a function, with its name in upper case and its arguments."""

    name: str
    arguments: tuple[Node, ...]


Node = (
    Literal
    | AttributeReference
    | ExistsOperation
    | UnaryOperation
    | BinaryOperation
    | LikeOperation
    | InOperation
    | FunctionCall
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int


def read(text: str) -> Node:
    """Parse ``text`` into a tree. Raises ``ParseError``, also if the expression is too long or nested too deeply."""
    if len(text) > MAX_LENGTH:
        raise ParseError(f"the expression has {len(text)} characters; at most {MAX_LENGTH} are accepted")
    parser = _Parser(_split_tokens(text))
    node = parser.parse_binary(0)
    parser.expect(_END)
    return node


def _split_tokens(text: str) -> list[_Token]:
    tokens, position = [], 0
    while match := _TOKEN_PATTERN.match(text, position):
        kind = match.lastgroup or ""
        tokens.append(_Token(kind, _normalise_token(kind, match[kind]), match.start(kind) + 1))
        position = match.end()
    remainder = text[position:].lstrip()
    if remainder:
        raise ParseError(f"nothing begins with {remainder[0]!r}, at character {len(text) - len(remainder) + 1}")
    if len(tokens) > MAX_TERMS:
        raise ParseError(f"the expression has {len(tokens)} words and signs; at most {MAX_TERMS} are accepted")
    return [*tokens, _Token("end", _END, len(text) + 1)]


def _normalise_token(kind: str, text: str) -> str:
    """Return a keyword in upper case, or a string without its quotes and with escaped quotes of its kind unescaped."""
    if kind == "string":
        return text[1:-1].replace("\\" + text[0], text[0])
    return text.upper() if text.upper() in _KEYWORDS else text


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def parse_nested(self) -> Node:
        """Parse an expression inside another one."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._make_error(f"at most {MAX_DEPTH} expressions may be inside each other")
        node = self.parse_binary(0)
        self._depth -= 1
        return node

    def parse_binary(self, level: int) -> Node:
        """Parse operators of ``level`` and of all levels that bind tighter."""
        if level == len(_LEVELS):
            return self._parse_suffixed()
        node = self.parse_binary(level + 1)
        while self._next.kind != "string" and self._next.text in _LEVELS[level]:
            node = BinaryOperation(self._take().text, node, self.parse_binary(level + 1))
        return node

    def expect(self, text: str) -> None:
        """Consume the next token, which must be ``text``. Raises ``ParseError``."""
        if self._next.kind == "string" or self._next.text != text:
            raise self._make_error(f"{text or 'the end'} is expected")
        self._take()

    def _parse_suffixed(self) -> Node:
        node = self._parse_unary()
        while True:
            # NOT usually begins an operand. After an operand it belongs to LIKE or IN, which only the next token shows.
            ahead = self._tokens[self._at + 1] if self._is("NOT") else self._next
            if ahead.kind == "string" or ahead.text not in ("LIKE", "IN"):
                return node
            negated = self._is("NOT")
            self._at += negated
            node = self._parse_like(node, negated) if self._take().text == "LIKE" else self._parse_in(node, negated)

    def _parse_like(self, operand: Node, negated: bool) -> Node:
        if self._next.kind != "string":
            raise self._make_error("LIKE takes a pattern in quotes")
        return LikeOperation(operand, self._take().text, negated)

    def _parse_in(self, operand: Node, negated: bool) -> Node:
        self.expect("(")
        return InOperation(operand, self._list(), negated)

    def _list(self) -> tuple[Node, ...]:
        members = [self.parse_nested()]
        while self._is(","):
            self._take()
            members.append(self.parse_nested())
        self.expect(")")
        return tuple(members)

    def _parse_unary(self) -> Node:
        if self._is("NOT"):
            self._take()
            return UnaryOperation("NOT", self._parse_unary())
        if self._is("-") or self._is("+"):
            sign = self._take().text
            if self._next.kind == "word" and self._next.text.isdigit():
                return Literal(self._parse_integer(sign))
            if sign == "-":
                return UnaryOperation("-", self._parse_unary())
            raise self._make_error("a number is expected behind +")
        return self._parse_operand()

    def _parse_operand(self) -> Node:
        token = self._next
        if token.kind == "string":
            return Literal(self._take().text)
        if token.text == "(":
            self._take()
            node = self.parse_nested()
            self.expect(")")
            return node
        if token.kind != "word":
            raise self._make_error("an attribute, a value or ( is expected")
        return self._parse_word()

    def _parse_word(self) -> Node:
        if self._next.text in ("TRUE", "FALSE"):
            return Literal(self._take().text == "TRUE")
        if self._next.text == "EXISTS":
            self._take()
            return ExistsOperation(self._take_name())
        if self._next.text in _KEYWORDS:
            raise self._make_error("an attribute or a value is expected")
        if self._next.text.isdigit():
            return Literal(self._parse_integer(""))
        if self._tokens[self._at + 1].text == "(" and self._tokens[self._at + 1].kind == "sign":
            return self._call()
        return AttributeReference(self._take_name())

    def _call(self) -> Node:
        if not _FUNCTION.fullmatch(self._next.text):
            raise self._make_error("a function has letters and _ in its name")
        name = self._take().text.upper()
        self.expect("(")
        if self._is(")"):
            self._take()
            return FunctionCall(name, ())
        return FunctionCall(name, self._list())

    def _take_name(self) -> str:
        """Return the name of an attribute. Upper case is accepted, as in the test vectors of the specification."""
        if self._next.kind != "word" or self._next.text in _KEYWORDS or "_" in self._next.text:
            raise self._make_error("the name of an attribute is expected")
        return self._take().text.lower()

    def _parse_integer(self, sign: str) -> int:
        text = self._next.text
        if len(text) > len(str(MOST)) or not LEAST <= int(sign + text) <= MOST:
            raise self._make_error("numbers have 32 bits")
        self._take()
        return int(sign + text)

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _is(self, text: str) -> bool:
        return self._next.kind != "string" and self._next.text == text

    def _take(self) -> _Token:
        token = self._next
        self._at += 1
        return token

    def _make_error(self, expectation: str) -> ParseError:
        token = self._next
        token_text = "the end" if token.kind == "end" else repr(token.text)
        return ParseError(f"{expectation}, but there is {token_text} at character {token.position}")
