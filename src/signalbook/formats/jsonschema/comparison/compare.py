"""Whether a reader's schema accepts everything a writer's schema allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from signalbook.formats.base import MAX_FINDINGS, pointer
from signalbook.formats.compatibility import Difference
from signalbook.formats.jsonschema.comparison.explain import difference, undecided
from signalbook.formats.jsonschema.comparison.library import Library
from signalbook.formats.jsonschema.comparison.prover import MAX_STEPS, Prover
from signalbook.formats.jsonschema.comparison.term import Term, target
from signalbook.formats.jsonschema.document import Document
from signalbook.formats.jsonschema.references import uri_of


def compare(reader: Document, writer: Document, *, steps: int = MAX_STEPS) -> list[Difference]:
    """Why not every value that ``writer`` allows is one ``reader`` accepts; at most ``MAX_FINDINGS`` reasons.

    ``steps`` limits the work; what has not been shown by then is a difference.
    """
    readers, writers = Library(reader), Library(writer)
    new, old = readers.refer("#"), writers.refer("#")
    if target(new).says or target(old).says:
        return compare_terms([(new, old)], steps)
    pairs = list(_definitions(readers, writers))
    gone = [
        difference("definition_removed", new, old=old.raw, name=new.path) for new, old in pairs if "opaque" in new.says
    ]
    return [*gone, *compare_terms([(new, old) for new, old in pairs if "opaque" not in new.says], steps)][:MAX_FINDINGS]


def compare_terms(pairs: Iterable[tuple[Term, Term]], steps: int = MAX_STEPS) -> list[Difference]:
    """The same of parts of documents: pairs of what reads and what writes."""
    prover = Prover(steps)
    found: dict[tuple[str, str, str], Difference] = {}
    for new, old in pairs:
        try:
            differences = prover.differences(frozenset({(target(old), True)}), new)
        except RecursionError:
            differences = [undecided(new, "the schemas are nested too deep to compare")]
        found |= {(one.path, one.rule, one.message): one for one in differences}
    return list(found.values())[:MAX_FINDINGS]


def _definitions(readers: Library, writers: Library) -> Iterator[tuple[Term, Term]]:
    """Definitions of a document whose top level says nothing: it is a collection that others refer to."""
    root = writers.document.root
    for keyword in ("definitions", "$defs"):
        for name in root.get(keyword, ()) if isinstance(root, dict) else ():
            uri = uri_of("", pointer((keyword, name)))
            yield readers.refer(uri), writers.refer(uri)
