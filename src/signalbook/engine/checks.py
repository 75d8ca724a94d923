"""Checks of schema documents together with the documents that they refer to.

Writes, trials, the explorer and the Confluent API all check documents here. In the turn of a write a check may be
postponed (see ``work``). Its result is used in the next turn as long as the references lead to the same documents.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

from signalbook import work
from signalbook.formats import SchemaError
from signalbook.formats.base import Format, Resolve, extract_text
from signalbook.formats.compatibility import Difference, Direction, SchemaText, list_differences
from signalbook.formats.references import has_open_references, is_importing
from signalbook.values import Finding, digest
from signalbook.work import Work

Item = TypeVar("Item")
Check = Callable[..., list[Item]]
"""A function that gets a ``SchemaText`` for each document. Raises ``SchemaError`` and ``LookupError``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult(Generic[Item]):
    """The result of checking documents. ``error`` is the reason why there is no result, else None.

    ``referred`` has the digests of the documents that each document refers to, by URI. The result depends on them. The
    digest is None for a URI that refers to no document.
    """

    items: list[Item]
    error: SchemaError | LookupError | None
    referred: Sequence[Mapping[str, str | None]] = ()


class ReferredDocument(NamedTuple):
    """The digest and the text of a document that another one refers to."""

    name: str
    text: bytes


class References(Protocol):
    """The documents that one schema refers to."""

    def resolve(self, uri: str) -> ReferredDocument | None:
        """Return the document that the schema refers to as ``uri``, or None."""

    def find_digests(self, uris: Iterable[str]) -> Mapping[str, str | None]:
        """Return the digests of the documents that the schema refers to as ``uris``. None if there is no document."""

    def freeze(self, resolved: Mapping[str, str | None]) -> References:
        """Return the references for a check after the turn of the write, which has resolved ``resolved``."""


@dataclass(frozen=True, slots=True)
class TextReferences:
    """References that ``read`` resolves at any time. None means that nothing is referred to."""

    read: Resolve | None

    def resolve(self, uri: str) -> ReferredDocument | None:
        text = None if self.read is None else self.read(uri)
        return None if text is None else ReferredDocument(digest(text), text)

    def find_digests(self, uris: Iterable[str]) -> Mapping[str, str | None]:
        documents = {uri: self.resolve(uri) for uri in uris}
        return {uri: None if document is None else document.name for uri, document in documents.items()}

    def freeze(self, resolved: Mapping[str, str | None]) -> Self:  # noqa: ARG002  nothing changes after the turn
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDocument:
    """A schema document to check. ``name`` is the digest of ``content``.

    ``is_text`` means that ``content`` is the text of the schema (see ``extract_text``). ``held_bytes`` is the number of
    bytes of documents that ``references`` holds in memory.
    """

    name: str | None
    content: bytes
    format: str
    references: References
    is_text: bool = False
    held_bytes: int = 0

    @classmethod
    def from_text(cls, text: SchemaText, held_bytes: int = 0) -> Self:
        """Return the document ``text``, whose references can be resolved at any time."""
        return cls(
            name=digest(text.document),
            content=text.document,
            format=text.format,
            references=TextReferences(text.resolve),
            is_text=True,
            held_bytes=held_bytes,
        )

    @property
    def key(self) -> Hashable:
        """The key of the text and its format."""
        is_quoted = self.is_text and self.content.startswith(b'"')  # a stored document that begins so has another text
        return (self.name, self.format, "text") if is_quoted else (self.name, self.format)


def check_documents(
    kind: Hashable,
    documents: Sequence[CheckedDocument],
    check: Check[Item],
    find_substitute: Callable[[], CheckResult[Item] | None] = lambda: None,
) -> CheckResult[Item] | None:
    """Return the result of ``check`` for ``documents``. None if the check is postponed.

    ``kind`` identifies the check. A postponed check first calls ``find_substitute`` for a result of other work that
    replaces its own.
    """
    key: Hashable = (kind, *(document.key for document in documents))
    resolved: list[Mapping[str, str | None]] = [{} for _ in documents]
    result: CheckResult[Item] | None = work.known_result(key)
    while result is not None:
        pairs = zip(documents, result.referred, strict=True)
        resolved = [document.references.find_digests(referred) for document, referred in pairs]
        if list(result.referred) == resolved:
            return result
        # The references have changed, or equal documents refer to different ones by the same URIs.
        digests = (frozenset(uris.items()) for uris in resolved)
        key = (kind, *zip((document.key for document in documents), digests, strict=True))
        result = work.known_result(key)
    frozen = [document.references.freeze(uris) for document, uris in zip(documents, resolved, strict=True)]
    # Without the contents: postponed work gets them from ``work``, which has each of them only once.
    forms = [(document.format, document.is_text) for document in documents]
    return work.compute_or_postpone(
        key,
        partial(_check_contents, check, forms, [document.references for document in documents]),
        later=partial(_check_after_turn, find_substitute, check, forms, frozen),
        contents=[document.content for document in documents],
        size=sum(len(document.content) + document.held_bytes for document in documents),
    )


def _check_after_turn(
    find_substitute: Callable[[], CheckResult[Item] | None],
    check: Check[Item],
    forms: Sequence[tuple[str, bool]],
    references: Sequence[References],
    *contents: bytes,
) -> CheckResult[Item]:
    return find_substitute() or _check_contents(check, forms, references, *contents)


def _check_contents(
    check: Check[Item], forms: Sequence[tuple[str, bool]], references: Sequence[References], *contents: bytes
) -> CheckResult[Item]:
    referred: list[dict[str, str | None]] = [{} for _ in contents]
    texts = []
    for content, (name, is_text), resolve, uris in zip(contents, forms, references, referred, strict=True):
        work.spend(len(content))
        text = content if is_text else extract_text(content, name)
        texts.append(SchemaText(document=text, format=name, resolve=partial(_resolve_and_record, resolve, uris)))
    try:
        return CheckResult(items=check(*texts), error=None, referred=referred)
    except (SchemaError, LookupError) as error:
        return CheckResult(items=[], error=error, referred=referred)


def _resolve_and_record(references: References, referred: dict[str, str | None], uri: str) -> bytes | None:
    document = references.resolve(uri)
    referred[uri] = None if document is None else document.name
    if document is None:
        return None
    work.spend(len(document.text))
    return document.text


def check_alone(reader: Format, document: CheckedDocument) -> list[Finding] | None:
    """Return the findings about a document without its references. None if the check is postponed."""
    result = check_documents("alone", [document], partial(_check_alone, reader))
    if result is not None and result.error is not None:
        raise result.error
    return None if result is None else result.items


def _check_alone(reader: Format, text: SchemaText) -> list[Finding]:
    return reader.check(text.document, text.format)


def find_findings(name: str | None, format: str) -> list[Finding] | None:
    """Return the findings that ``check_alone`` has returned for a stored document, or None. ``name`` is its digest."""
    result: CheckResult[Finding] | None = work.known_result(("alone", (name, format)))
    return None if result is None else result.items


def check_whole(reader: Format, document: CheckedDocument) -> CheckResult[Finding] | None:
    """Return the findings about a document together with all that it refers to. None if the check is postponed.

    While ``check_alone`` is postponed, it is not known whether the document refers to others.
    """

    def find_closed() -> CheckResult[Finding] | None:
        findings = find_findings(document_name, format_name)
        is_closed = findings is not None and not has_open_references(findings)
        return CheckResult(items=findings or [], error=None, referred=[{}]) if is_closed else None

    document_name, format_name = document.name, document.format  # without the content
    check = reader.check_whole if is_importing(reader) else partial(_parse_whole, reader)
    return check_documents("whole", [document], check, find_closed)


def _parse_whole(reader: Format, text: SchemaText) -> list[Finding]:
    """Parse a document with its references. Returns no findings if it can be parsed, else raises ``SchemaError``."""
    reader.parse(text.document, text.format, resolve=text.resolve)
    return []


def compare_documents(
    rule: str, new: CheckedDocument, old: CheckedDocument
) -> CheckResult[tuple[Direction, Difference]] | None:
    """Return the differences that forbid ``new`` to follow ``old`` under ``rule``. None if this is postponed.

    See ``list_differences``.
    """
    kind = ("differences", rule.casefold().removesuffix("_transitive"))
    return check_documents(kind, [new, old], partial(list_differences, rule))


def compare_texts(rule: str, new: SchemaText, old: SchemaText, limits: Work) -> list[tuple[Direction, Difference]]:
    """Return the result of ``compare_documents`` for a reader, whose work ``limits`` limits.

    Raises ``SchemaError``, ``LookupError``, ``TooComplex`` and ``OutOfTime``.
    """
    with limits.on_the_spot():
        result = compare_documents(rule, CheckedDocument.from_text(new), CheckedDocument.from_text(old))
    assert result is not None, "only writes postpone checks"
    if result.error is not None:
        raise result.error
    return result.items
