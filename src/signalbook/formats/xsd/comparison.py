"""The comparison of XML Schemas: find the clauses that each pair of elements and types has to satisfy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from xmlschema.validators import XsdAttribute, XsdElement, XsdGroup

from signalbook.formats.base import MAX_FINDINGS
from signalbook.formats.compatibility import Difference, TooManySteps
from signalbook.formats.inclusion import Clause, find_refutations, make_difference, make_undecided
from signalbook.formats.xsd import models, simpletypes
from signalbook.formats.xsd.limits import XS, local_name
from signalbook.formats.xsd.models import Incomplete, Leaf, Outcome, Pair, Unexpected, read_wildcard_names
from signalbook.formats.xsd.paths import expand_path
from signalbook.work import spend

MAX_STEPS: Final = 200_000
_ANY_TYPE: Final = f"{XS}anyType"
_STRICTNESS: Final = ("skip", "lax", "strict")
_MAX_EXAMPLES: Final = 5


class ComponentPair(NamedTuple):
    """The question whether ``reader`` accepts all content of ``writer``.

    Both are elements or types, depending on ``kind``. Both are None for the kinds "lax" and "skip": then the question
    is about any content that the writer checks in this way.
    """

    kind: Literal["element", "type", "lax", "skip"]
    writer: Any
    reader: Any


Clauses = list[Clause[ComponentPair]]


def find_differences(reader: Any, writer: Any, roots: Callable[[Any], list[Any]]) -> list[Difference]:
    """Return all reasons found why a document of the schema ``writer`` may not be valid for the schema ``reader``.

    Both are schemas of the ``xmlschema`` library. ``roots`` returns the top-level elements of a schema, the possible
    roots of documents. If the writer has no such elements, all types are compared by name. A path leads from a
    top-level declaration to a part of it: ``order/item/@id``.
    """
    comparison = _Comparison(reader, writer)
    written, read = ({part.name: part for part in roots(schema)} for schema in (writer, reader))
    if written:
        kind: Literal["element", "type"] = "element"
    else:
        kind = "type"
        written, read = ({part.name: part for part in _list_own_types(schema)} for schema in (writer, reader))
    removed: list[Difference] = []
    if writer.target_namespace != reader.target_namespace and written:
        message = "all names are in another namespace"
        old, new = writer.target_namespace, reader.target_namespace
        return [make_difference("", "namespace_changed", old, new, message)]
    for name in written.keys() - read.keys():
        message = f"documents may have the root {local_name(name)}, which is not declared here"
        if kind == "type":
            message = f"the type {local_name(name)} is gone; what refers to it finds nothing"
        removed.append(make_difference(_find_path(written[name]), f"{kind}_removed", local_name(name), None, message))
    pairs = [ComponentPair(kind, part, read[name]) for name, part in written.items() if name in read]
    removed.sort(key=lambda item: item.path)
    return [*removed, *find_refutations(pairs, comparison.examine, max_clauses=MAX_STEPS)][:MAX_FINDINGS]


def _list_own_types(schema: Any) -> list[Any]:
    return [part for part in schema.types.values() if part.schema is schema]


def _list_complex_types(schema: Any) -> list[Any]:
    """Return the named complex types of ``schema`` and of the schemas that it imports."""
    return [part for part in schema.maps.types.values() if not part.is_simple() and not part.name.startswith(XS)]


class _Comparison:
    """Finds the clauses that the answer to a question depends on."""

    def __init__(self, reader: Any, writer: Any) -> None:
        self.reader = reader
        self.writer = writer
        self.any_type = reader.maps.any_type
        self._steps = 0
        self._simple: dict[tuple[Any, Any], list[simpletypes.SimpleTypeProblem]] = {}
        self._derived = [_index_derived(schema) for schema in (writer, reader)]

    def spend(self, steps: int) -> None:
        self._steps += steps
        spend(steps)
        if self._steps > MAX_STEPS:
            raise TooManySteps

    def examine(self, question: ComponentPair) -> Clauses:
        """Return the clauses that must all hold if the reader accepts everything that the writer allows."""
        self.spend(1)
        kind, old, new = question
        match kind:
            case "element":
                return list(self._compare_elements(old, new))
            case "type":
                return list(self._compare_types(old, new, _find_path(new)))
            case "lax":
                return list(self._compare_lax())
            case "skip":
                return list(self._compare_globals("skip"))

    def _compare_elements(self, old: XsdElement, new: XsdElement) -> Iterator[Clause[ComponentPair]]:
        path = _find_path(new)
        if old.nillable and not new.nillable:
            message = "xsi:nil may be written, but is not accepted here"
            yield _make_failed_clause(path, "nillable_removed", True, False, message)
        yield from self._compare_fixed(old, new, path)
        yield from self._compare_defaults(old, new, path)
        for identity in sorted(_list_identities(new) - _list_identities(old)):
            message = "values may be written that are not unique, or refer to nothing, which is asked for here"
            yield _make_failed_clause(path, "identity_constraint_added", None, " ".join(identity), message)
        if new.alternatives or old.alternatives:
            yield from self._compare_alternatives(old, new, path)
            return
        if not old.type.abstract:
            if new.type.abstract:
                yield _make_failed_clause(
                    path, "type_abstract", _format_type(old.type), _format_type(new.type), "the type is abstract here"
                )
            if old.type.is_simple() and new.type.is_simple():
                yield from self._compare_value_types(old, new, path)
            elif old.type.is_simple() or new.type.is_simple():
                yield from self._compare_types(old.type, new.type, path)
            else:
                yield Clause((ComponentPair("type", old.type, new.type),))
        yield from self._compare_derivations(old, new, path)

    def _compare_value_types(self, old: Any, new: Any, path: str) -> Iterator[Clause[ComponentPair]]:
        """Yield clauses for the simple types of two elements or attributes. With a fixed value,
        only its text is compared.
        """
        if old.fixed is None or not self._find_problems(old.type, new.type):
            yield from self._compare_texts(old.type, new.type, path)
        elif new.type.text_is_valid(old.fixed):
            message = "the fixed value may have other texts"
            yield Clause((), make_undecided(path, message, old.fixed, _format_type(new.type)))
        else:
            message = f"{old.fixed} may be written, but is not accepted here"
            yield _make_failed_clause(path, "value_refused", old.fixed, _format_type(new.type), message)

    def _compare_fixed(self, old: Any, new: Any, path: str) -> Iterator[Clause[ComponentPair]]:
        """Yield clauses for the fixed values of two elements or attributes."""
        if new.fixed is not None and old.fixed != new.fixed:
            rule = "fixed_added" if old.fixed is None else "fixed_changed"
            message = f"another value than {new.fixed} may be written, which is fixed here"
            yield _make_failed_clause(path, rule, old.fixed, new.fixed, message)
        elif new.fixed is not None and _find_value_space(old.type) != _find_value_space(new.type):
            yield Clause((), make_undecided(path, "fixed values of different types", old.fixed, new.fixed))

    def _compare_defaults(self, old: Any, new: Any, path: str) -> Iterator[Clause[ComponentPair]]:
        """Yield clauses for the values that two elements or attributes have if nothing is written."""
        before, after = (part.fixed if part.fixed is not None else part.default for part in (old, new))
        if before is not None and before != after and not (old.fixed is not None and new.fixed is not None):
            message = f"where nothing is written {before} is meant, but {'nothing' if after is None else after} is read"
            yield _make_failed_clause(path, "default_changed", before, after, message)

    def _compare_alternatives(self, old: Any, new: Any, path: str) -> Iterator[Clause[ComponentPair]]:
        written, read = (
            [expand_path(part, part.elem.get("test")) for part in element.alternatives] for element in (old, new)
        )
        if written != read:
            yield Clause((), make_undecided(path, "types that depend on conditions are not proven", written, read))
            return
        yield Clause((ComponentPair("type", old.type, new.type),))
        for writer_part, reader_part in zip(old.alternatives, new.alternatives, strict=True):
            yield Clause((ComponentPair("type", writer_part.type, reader_part.type),))

    def _compare_derivations(self, old: Any, new: Any, path: str) -> Iterator[Clause[ComponentPair]]:
        """Yield clauses for the types that ``xsi:type`` may name instead of the declared type."""
        if old.type.name == _ANY_TYPE:
            return
        reader_types = {part.name: part for part in (new.type, *self._derived[1].get(id(new.type), ()))}
        for part in self._derived[0].get(id(old.type), ()):
            self.spend(1)
            if part.abstract or part.is_blocked(old):
                continue
            reader_type = reader_types.get(part.name)
            if reader_type is None and new.type.name == _ANY_TYPE:
                reader_type = self.reader.maps.types.get(part.name)
            if reader_type is None or reader_type.abstract or reader_type.is_blocked(new):
                name = local_name(part.name)
                message = f"the type {name} may be written in place of the declared one, but not be read"
                yield _make_failed_clause(path, "derived_type_removed", name, None, message)
            else:
                yield Clause((ComponentPair("type", part, reader_type),))

    def _compare_types(self, old: Any, new: Any, path: str) -> Iterator[Clause[ComponentPair]]:
        if new.is_simple() and old.is_simple():
            yield from self._compare_texts(old, new, path)
            return
        yield from self._compare_attributes(old, new, path)
        for test in sorted(_list_assertions(new) - _list_assertions(old)):
            yield Clause((), make_undecided(path, f"the assertion {test} is not proven", None, test))
        writer_content, reader_content = (xsd if xsd.is_simple() else xsd.content for xsd in (old, new))
        match isinstance(writer_content, XsdGroup), isinstance(reader_content, XsdGroup):
            case False, False:
                yield from self._compare_texts(writer_content, reader_content, path)
            case False, True:
                if not reader_content.mixed or not _is_emptiable(new, self.spend):
                    message = "a text may be written, but elements are expected here"
                    yield _make_failed_clause(path, "content_changed", _format_type(old), _format_type(new), message)
            case True, False:
                message = "elements may be written, but a text is expected here"
                yield _make_failed_clause(path, "content_changed", _format_type(old), _format_type(new), message)
            case _:
                yield from self._compare_contents(old, new, path)

    def _compare_texts(self, old: Any, new: Any, path: str) -> Iterator[Clause[ComponentPair]]:
        for problem in self._find_problems(old, new):
            yield _make_failed_clause(path, *problem)

    def _find_problems(self, old: Any, new: Any) -> list[simpletypes.SimpleTypeProblem]:
        if (old, new) not in self._simple:
            self._simple[old, new] = simpletypes.find_problems(old, new, self.spend)
        return self._simple[old, new]

    def _compare_contents(self, old: Any, new: Any, path: str) -> Iterator[Clause[ComponentPair]]:
        if old.content.mixed and not new.content.mixed:
            message = "text may be written between the elements, but is not accepted here"
            yield _make_failed_clause(path, "mixed_removed", "mixed", None, message)
        writer_model = models.build_model(old.content, self.spend, strict=False, is_possible=self._is_possible)
        reader_model = models.build_model(new.content, self.spend, strict=True)
        yield from self._compare_open(old, new, (writer_model, reader_model), path)
        seen: set[object] = set()
        for outcome in models.compare_models(writer_model, reader_model):
            for clause in self._make_clauses(outcome, writer_model, reader_model, path):
                key = (clause.questions, str(clause.otherwise))
                if key not in seen:
                    seen.add(key)
                    yield clause

    def _compare_open(
        self, old: Any, new: Any, content_models: tuple[models.ContentModel, models.ContentModel], path: str
    ) -> Iterator[Clause[ComponentPair]]:
        """Yield clauses for open content (XSD 1.1).

        The writer's open content has to be within the reader's, and the reader's model may not have additional names.
        """
        writer_content, reader_content = (_find_open_content(xsd) for xsd in (old, new))
        if writer_content is None:
            return
        if reader_content is None:
            message = "elements of any name may be written, but only the described ones are accepted here"
            yield _make_failed_clause(path, "open_content_removed", writer_content.mode, None, message)
            return
        names = [{leaf.name for leaf in content_model.leaves} for content_model in content_models]
        if writer_content.mode != reader_content.mode or not names[1] <= names[0]:
            yield Clause(
                (), make_undecided(path, "open content of another kind", writer_content.mode, reader_content.mode)
            )
            return
        wildcards = [
            Leaf(content.any_element, "", read_wildcard_names(content.any_element))
            for content in (writer_content, reader_content)
        ]
        yield from self._compare_wildcards(wildcards[0], wildcards[1], path)

    def _make_clauses(
        self, outcome: Outcome, writer_model: models.ContentModel, reader_model: models.ContentModel, path: str
    ) -> Clauses:
        match outcome:
            case Pair(writer, reader):
                return list(self._compare_leaves(writer, reader, path))
            case Incomplete(expected):
                return [_make_incomplete_clause(expected, writer_model, path)]
            case Unexpected(leaf, expected, repeated):
                if writer_model.loosen().is_partial:
                    return [Clause((), make_undecided(path, "an all-group of many elements"))]
                return [_make_unexpected_clause(leaf, expected, (writer_model, reader_model), path, repeated=repeated)]

    def _is_possible(self, leaf: Leaf) -> bool:
        """Return False for a wildcard that requires declared elements if the writer declares no such element."""
        if leaf.names is None or _find_strictness(leaf) != "strict":
            return True
        return any(leaf.names.allows(name) for name, _ in _list_globals(self.writer.maps.elements))

    def _compare_leaves(self, writer: Leaf, reader: Leaf, path: str) -> Iterator[Clause[ComponentPair]]:
        """Yield clauses for what the writer and the reader allow at one place of the content."""
        if writer.names is not None and reader.names is not None:
            yield from self._compare_wildcards(writer, reader, path)
        elif writer.names is not None:
            yield from self._compare_open_element(reader.component, _find_strictness(writer))
        elif reader.names is None:
            yield Clause((ComponentPair("element", writer.component, reader.component),))
        else:
            yield from self._compare_undeclared(writer.component, _find_strictness(reader), path)

    def _compare_undeclared(self, element: XsdElement, strictness: str, path: str) -> Iterator[Clause[ComponentPair]]:
        """Yield clauses for the writer's ``element`` at a place where the reader has a wildcard."""
        if strictness == "skip":
            return
        declared = self.reader.maps.elements.get(element.name)
        if declared is not None:
            yield Clause((ComponentPair("element", element, declared),))
        elif strictness == "lax":
            yield Clause((ComponentPair("type", element.type, self.any_type),))
        else:
            message = f"{element.local_name} may be written, but is not declared here"
            yield _make_failed_clause(path, "element_removed", element.local_name, None, message)

    def _compare_open_element(self, element: XsdElement, strictness: str) -> Iterator[Clause[ComponentPair]]:
        """Yield clauses for the reader's ``element`` at a place where the writer has a wildcard."""
        declared = self.writer.maps.elements.get(element.name)
        if strictness != "skip" and declared is not None:
            yield Clause((ComponentPair("element", declared, element),))
        elif strictness == "strict":
            return
        elif not _is_anything(element):
            yield _make_failed_clause(*_describe_opened(element))
        else:
            yield _make_open_clause(strictness)

    def _compare_wildcards(self, writer: Leaf, reader: Leaf, path: str) -> Iterator[Clause[ComponentPair]]:
        writer_strictness, reader_strictness = _find_strictness(writer), _find_strictness(reader)
        assert writer.names is not None
        assert reader.names is not None
        if reader_strictness == "skip":
            return
        if writer_strictness == "strict":
            for name, element in _list_globals(self.writer.maps.elements):
                self.spend(1)
                if writer.names.allows(name) and reader.names.allows(name):
                    yield from self._compare_undeclared(element, reader_strictness, path)
        elif reader_strictness == "strict":
            message = "elements that are declared nowhere may be written, but are not accepted here"
            yield _make_failed_clause(path, "wildcard_narrowed", writer_strictness, reader_strictness, message)
        else:
            yield _make_open_clause(writer_strictness)

    def _compare_lax(self) -> Iterator[Clause[ComponentPair]]:
        """Yield clauses for a place with any content, where top-level declarations and named types must match."""
        yield from self._compare_globals("lax")
        for part in _list_complex_types(self.writer):
            self.spend(1)
            if part.abstract:
                continue
            reader_type, name = self.reader.maps.types.get(part.name), local_name(part.name)
            if reader_type is not None and not reader_type.abstract:
                yield Clause((ComponentPair("type", part, reader_type),))
            else:
                message = f"xsi:type may name the type {name} in any content, but it cannot be read"
                yield _make_failed_clause(_find_path(part), "derived_type_removed", name, None, message)

    def _compare_globals(self, strictness: str) -> Iterator[Clause[ComponentPair]]:
        """Yield clauses for all top-level declarations of the reader, which the writer's wildcards allow."""
        for _, element in _list_globals(self.reader.maps.elements):
            self.spend(1)
            yield from self._compare_open_element(element, strictness)
        for _, attribute in _list_globals(self.reader.maps.attributes):
            yield from self._compare_open_attribute(attribute, strictness)

    def _compare_open_attribute(self, attribute: XsdAttribute, strictness: str) -> Iterator[Clause[ComponentPair]]:
        """Yield clauses for the reader's ``attribute`` at a place where the writer has a wildcard."""
        declared = self.writer.maps.attributes.get(attribute.name)
        if strictness != "skip" and declared is not None:
            path = _find_path(attribute)
            yield from self._compare_value_types(declared, attribute, path)
            yield from self._compare_fixed(declared, attribute, path)
        elif strictness != "strict" and not _is_any_text(attribute):
            yield _make_failed_clause(*_describe_opened(attribute))

    def _compare_attributes(self, old: Any, new: Any, path: str) -> Iterator[Clause[ComponentPair]]:
        written, read = ({} if xsd.is_simple() else xsd.attributes for xsd in (old, new))
        self.spend(1 + len(written) + len(read))
        wildcards = [attributes.get(None) for attributes in (written, read)]
        for name, attribute in written.items():
            if name is not None and attribute.use != "prohibited":
                yield from self._compare_attribute(attribute, read.get(name), wildcards[1])
        for name, attribute in read.items():
            if name is not None:
                yield from self._compare_other_attribute(attribute, written.get(name), wildcards[0], name)
        if wildcards[0] is not None:
            yield from self._compare_any_attributes(wildcards[0], wildcards[1], {*written, *read} - {None}, path)

    def _compare_attribute(self, old: XsdAttribute, new: Any, wildcard: Any) -> Iterator[Clause[ComponentPair]]:
        if new is None and wildcard is not None and read_wildcard_names(wildcard).allows(str(old.name)):
            if wildcard.process_contents == "skip":
                return
            new = self.reader.maps.attributes.get(old.name)
            if new is None and wildcard.process_contents == "lax":
                return
        if new is None or new.use == "prohibited":
            message = f"the attribute {old.local_name} may be written, but there is none of that name here"
            yield _make_failed_clause(_find_path(old), "attribute_removed", _format_type(old.type), None, message)
            return
        path = _find_path(new)
        yield from self._compare_value_types(old, new, path)
        yield from self._compare_fixed(old, new, path)
        yield from self._compare_defaults(old, new, path)

    def _compare_other_attribute(self, new: Any, old: Any, wildcard: Any, name: str) -> Iterator[Clause[ComponentPair]]:
        """Yield clauses for the reader's attribute ``new``, which the writer does not have or may omit."""
        if new.use == "required" and (old is None or old.use != "required"):
            message = f"the attribute {new.local_name} is required here, but may be missing in what is written"
            yield _make_failed_clause(_find_path(new), "attribute_required", None, _format_type(new.type), message)
        described = old is not None and old.use != "prohibited"
        if described or wildcard is None or new.use == "prohibited" or not read_wildcard_names(wildcard).allows(name):
            return
        yield from self._compare_open_attribute(new, wildcard.process_contents)

    def _compare_any_attributes(
        self, old: Any, new: Any, excluded: set[str], path: str
    ) -> Iterator[Clause[ComponentPair]]:
        strict, allowed_names = old.process_contents, read_wildcard_names(old)
        if new is None or not allowed_names.is_within([read_wildcard_names(new)], excluded):
            message = "attributes of other names may be written, but not all of them are accepted here"
            rule = "any_attribute_removed" if new is None else "any_attribute_narrowed"
            reader_names = None if new is None else str(read_wildcard_names(new))
            yield _make_failed_clause(path, rule, str(allowed_names), reader_names, message)
        elif _STRICTNESS.index(new.process_contents) > _STRICTNESS.index(strict):
            message = "attributes that are declared nowhere may be written, but have to be as declared here"
            yield _make_failed_clause(path, "any_attribute_narrowed", strict, new.process_contents, message)
        elif strict != "skip" and new.process_contents != "skip":
            for name, attribute in _list_globals(self.reader.maps.attributes):
                if name not in excluded and allowed_names.allows(name):
                    yield from self._compare_open_attribute(attribute, strict)
            if new.process_contents == "strict":
                for name, attribute in _list_globals(self.writer.maps.attributes):
                    if allowed_names.allows(name) and name not in self.reader.maps.attributes and name not in excluded:
                        message = f"the attribute {local_name(name)} may be written, but is not declared here"
                        yield _make_failed_clause(
                            _find_path(attribute), "attribute_removed", _format_type(attribute.type), None, message
                        )


def _make_failed_clause(path: str, rule: str, old: Any, new: Any, message: str) -> Clause[ComponentPair]:
    return Clause((), make_difference(path, rule, old, new, message))


def _make_open_clause(strictness: str) -> Clause[ComponentPair]:
    """Return the clause for a place where the reader allows any content that its declarations allow."""
    return Clause((ComponentPair("lax" if strictness == "lax" else "skip", None, None),))


def _describe_opened(part: Any) -> tuple[str, str, Any, Any, str]:
    kind = "attribute" if isinstance(part, XsdAttribute) else "element"
    message = f"{part.local_name} is described here, but the writer's wildcard lets it be anything"
    return _find_path(part), f"{kind}_added_to_open_content_model", "any", _format_type(part.type), message


def _make_incomplete_clause(
    expected: tuple[Leaf, ...], writer_model: models.ContentModel, path: str
) -> Clause[ComponentPair]:
    if not expected:
        message = "there is no content that is accepted here"
        return _make_failed_clause(path, "nothing_accepted", None, None, message)
    # In a sequence, only the last of the expected leaves is required.
    needed = expected[-1]
    names = _format_leaves(expected)
    if needed.names is None and {leaf.name for leaf in expected} <= {leaf.name for leaf in writer_model.leaves}:
        rule, message = "min_occurs_increased", f"{names} is needed here more often than it has to be written"
    else:
        rule, message = "element_required", f"{names} is needed here, but may be missing in what is written"
    return _make_failed_clause(f"{path}/{local_name(needed.name) or '*'}", rule, None, names, message)


def _make_unexpected_clause(
    leaf: Leaf,
    expected: tuple[Leaf, ...],
    content_models: tuple[models.ContentModel, models.ContentModel],
    path: str,
    *,
    repeated: bool,
) -> Clause[ComponentPair]:
    writer_model, reader_model = content_models
    written_name, expected_names = _format_leaves((leaf,)), _format_leaves(expected)
    if leaf.names is not None:
        message = f"elements of {written_name} may be written, but not all of them are accepted here"
        return _make_failed_clause(path, "wildcard_narrowed", written_name, expected_names or None, message)
    element_path = f"{path}/{local_name(leaf.name)}"
    written = {other.name for other in writer_model.leaves}
    missing = [other for other in expected if other.names is None and other.name not in written]
    if not any(_is_taken_by(other, leaf) for other in reader_model.leaves):
        message = f"the element {written_name} may be written, but there is none of that name here"
        return _make_failed_clause(element_path, "element_removed", written_name, None, message)
    if repeated:
        message = f"{written_name} may be written more often than it is accepted here"
        return _make_failed_clause(element_path, "max_occurs_decreased", written_name, expected_names or None, message)
    if missing:
        message = f"{expected_names} is needed here before {written_name}"
        return _make_failed_clause(
            f"{path}/{local_name(missing[0].name)}", "element_required", None, expected_names, message
        )
    message = f"{written_name} may be written where {expected_names or 'the end'} is expected here"
    return _make_failed_clause(element_path, "element_unexpected", written_name, expected_names or None, message)


def _is_taken_by(leaf: Leaf, other: Leaf) -> bool:
    return leaf.name == other.name if leaf.names is None else leaf.names.allows(other.name)


def _format_leaves(leaves: tuple[Leaf, ...]) -> str:
    names = [str(leaf.names) if leaf.names is not None else local_name(leaf.name) for leaf in leaves]
    return " or ".join(dict.fromkeys(names[:_MAX_EXAMPLES]))


def _find_strictness(leaf: Leaf) -> str:
    return str(leaf.component.process_contents)


def _find_open_content(xsd: Any) -> Any:
    content = xsd.open_content
    return content if content is not None and content.mode != "none" and content.any_element is not None else None


def _is_emptiable(xsd: Any, spend: Callable[[int], None]) -> bool:
    model = models.build_model(xsd.content, spend, strict=True)
    return model.is_nullable(model.start)


def _list_globals(components: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and declarations in ``components``, except those of XML Schema itself."""
    for name, part in list(components.items()):
        if not name.startswith((XS, "{http://www.w3.org/2001/XMLSchema-instance}")):
            yield name, part


def _is_anything(element: Any) -> bool:
    is_any_type = element.type.name == _ANY_TYPE and element.fixed is None
    return bool(is_any_type and element.nillable and not element.identities)


def _is_any_text(attribute: Any) -> bool:
    names = (f"{XS}anySimpleType", f"{XS}anyAtomicType", f"{XS}string")
    return attribute.type.name in names and attribute.fixed is None


def _index_derived(schema: Any) -> dict[int, list[Any]]:
    """Return the named complex types that are derived from each type, directly or indirectly, by
    the ``id()`` of the type.
    """
    derived: dict[int, list[Any]] = {}
    for part in _list_complex_types(schema):
        base, depth = part.base_type, 0
        while base is not None and base.name != _ANY_TYPE and depth < MAX_STEPS:
            derived.setdefault(id(base), []).append(part)
            base, depth = base.base_type, depth + 1
    return derived


def _list_identities(element: Any) -> set[tuple[str, ...]]:
    """Return the identity constraints of ``element`` as texts that do not depend on prefixes.

    The name of a key is included only in constraints that refer to the key.
    """
    identities = set()
    for identity in element.identities:
        parts = [local_name(identity.elem.tag), expand_path(identity.selector, identity.selector.path)]
        parts += [expand_path(part, part.path) for part in identity.fields]
        refer = getattr(identity, "refer", None)
        if refer is not None:
            parts += [f"refers to {refer.local_name}"]
        identities.add(tuple(parts))
    return identities


def _list_assertions(xsd: Any) -> set[str]:
    return set() if xsd.is_simple() else {expand_path(test, test.path) for test in xsd.assertions}


def _find_value_space(xsd: Any) -> object:
    """Return a key for a type. If the keys of two types are equal, equal texts have the same value in both types."""
    if not xsd.is_simple() and isinstance(xsd.content, XsdGroup):
        return "mixed"
    simple_type = xsd if xsd.is_simple() else xsd.content
    return getattr(getattr(simple_type, "primitive_type", None), "name", None), simple_type.white_space


def _format_type(xsd: Any) -> str:
    return str(xsd.local_name or ("a simple type" if xsd.is_simple() else "a complex type"))


def _find_path(part: Any) -> str:
    """Return the path of a declaration: its name after the names of the declarations that contain it."""
    names: list[str] = []
    while part is not None:
        name = part.local_name
        if name and not (isinstance(part, XsdGroup) and part.parent is not None):
            names.append(f"@{name}" if isinstance(part, XsdAttribute) else name)
        part = part.parent
    return "/".join(reversed(names))
