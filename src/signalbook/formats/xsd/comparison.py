"""Why documents of one XML Schema may not be documents of another: the clauses of each pair of elements and types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from xmlschema.validators import XsdAttribute, XsdElement, XsdGroup

from signalbook.formats.base import MAX_FINDINGS
from signalbook.formats.compatibility import Difference
from signalbook.formats.inclusion import Clause, TooMuch, fault, refutations, undecided
from signalbook.formats.xsd import models, simpletypes
from signalbook.formats.xsd.limits import XS, local
from signalbook.formats.xsd.models import Incomplete, Leaf, Outcome, Pair, Unexpected, names_of
from signalbook.formats.xsd.paths import expanded
from signalbook.work import spend

MAX_STEPS: Final = 200_000
_ANY_TYPE: Final = f"{XS}anyType"
_STRICTNESS: Final = ("skip", "lax", "strict")
_MAX_NAMED: Final = 5


class ComponentPair(NamedTuple):
    """The question whether ``reader`` allows all of ``writer``: elements, types, or None for anything lax."""

    kind: Literal["element", "type", "lax"]
    writer: Any
    reader: Any


Clauses = list[Clause[ComponentPair]]


def differences(reader: Any, writer: Any, roots: Callable[[Any], list[Any]]) -> list[Difference]:
    """Every reason found why a document of the schema ``writer`` may not be one of ``reader``; both are the library's.

    The roots of documents are the top-level elements, as ``roots`` gives them. Of schemas without any, all types are
    compared by name. A path leads from a top-level declaration to the part of it: ``order/item/@id``.
    """
    comparison = _Comparison(reader, writer)
    written, read = ({part.name: part for part in roots(schema)} for schema in (writer, reader))
    if written:
        kind: Literal["element", "type"] = "element"
    else:
        kind = "type"
        written, read = ({part.name: part for part in _own_types(schema)} for schema in (writer, reader))
    found: list[Difference] = []
    if writer.target_namespace != reader.target_namespace and written:
        message = "all names are in another namespace"
        old, new = writer.target_namespace, reader.target_namespace
        return [fault("", "namespace_changed", old, new, message)]
    for name in written.keys() - read.keys():
        message = f"documents may have the root {local(name)}, which is not declared here"
        if kind == "type":
            message = f"the type {local(name)} is gone; what refers to it finds nothing"
        found.append(fault(_path(written[name]), f"{kind}_removed", local(name), None, message))
    asked = [ComponentPair(kind, part, read[name]) for name, part in written.items() if name in read]
    found = sorted(found, key=lambda one: one.path) + refutations(asked, comparison.examine, most=MAX_STEPS)
    return found[:MAX_FINDINGS]


def _own_types(schema: Any) -> list[Any]:
    return [part for part in schema.types.values() if part.schema is schema]


class _Comparison:
    """Finds the clauses of questions."""

    def __init__(self, reader: Any, writer: Any) -> None:
        self.reader = reader
        self.writer = writer
        self.any_type = reader.maps.any_type
        self._steps = 0
        self._simple: dict[tuple[Any, Any], list[simpletypes.SimpleTypeProblem]] = {}
        self._derived = [_derived(schema) for schema in (writer, reader)]

    def spend(self, steps: int) -> None:
        self._steps += steps
        spend(steps)
        if self._steps > MAX_STEPS:
            raise TooMuch

    def examine(self, question: ComponentPair) -> Clauses:
        """Return the clauses that must hold for a positive answer."""
        self.spend(1)
        kind, old, new = question
        if kind == "element":
            return list(self._elements(old, new))
        return list(self._types(old, new, _path(new)) if kind == "type" else self._lax())

    def _elements(self, old: XsdElement, new: XsdElement) -> Iterator[Clause[ComponentPair]]:
        path = _path(new)
        if old.nillable and not new.nillable:
            yield _failed(path, "nillable_removed", True, False, "xsi:nil may be written, but is not accepted here")
        yield from self._fixed(old, new, path)
        for identity in sorted(_identities(new) - _identities(old)):
            message = "values may be written that are not unique, or refer to nothing, which is asked for here"
            yield _failed(path, "identity_constraint_added", None, " ".join(identity), message)
        if new.alternatives or old.alternatives:
            yield from self._alternatives(old, new, path)
            return
        if not old.type.abstract:
            if new.type.abstract:
                yield _failed(path, "type_abstract", _type(old.type), _type(new.type), "the type is abstract here")
            if old.type.is_simple() or new.type.is_simple():
                yield from self._types(old.type, new.type, path)
            else:
                yield Clause((ComponentPair("type", old.type, new.type),))
        yield from self._derivations(old, new, path)

    def _fixed(self, old: Any, new: Any, path: str) -> Iterator[Clause[ComponentPair]]:
        """Fixed values and defaults, of elements and of attributes."""
        if new.fixed is not None and old.fixed != new.fixed:
            rule = "fixed_added" if old.fixed is None else "fixed_changed"
            message = f"another value than {new.fixed} may be written, which is fixed here"
            yield _failed(path, rule, old.fixed, new.fixed, message)
        elif new.fixed is not None and _value_space(old.type) != _value_space(new.type):
            yield Clause((), undecided(path, "fixed values of different types", old.fixed, new.fixed))
        before, after = (part.fixed if part.fixed is not None else part.default for part in (old, new))
        if before is not None and before != after and not (old.fixed is not None and new.fixed is not None):
            message = f"where nothing is written {before} is meant, but {'nothing' if after is None else after} is read"
            yield _failed(path, "default_changed", before, after, message)

    def _alternatives(self, old: Any, new: Any, path: str) -> Iterator[Clause[ComponentPair]]:
        written, read = ([expanded(part, part.elem.get("test")) for part in one.alternatives] for one in (old, new))
        if written != read:
            yield Clause((), undecided(path, "types that depend on conditions are not proven", written, read))
            return
        yield Clause((ComponentPair("type", old.type, new.type),))
        for mine, theirs in zip(old.alternatives, new.alternatives, strict=True):
            yield Clause((ComponentPair("type", mine.type, theirs.type),))

    def _derivations(self, old: Any, new: Any, path: str) -> Iterator[Clause[ComponentPair]]:
        """Types that ``xsi:type`` may name in place of the declared one."""
        if old.type.name == _ANY_TYPE:
            return
        known = {part.name: part for part in self._derived[1].get(id(new.type), ())}
        for part in self._derived[0].get(id(old.type), ()):
            self.spend(1)
            if part.abstract or part.is_blocked(old):
                continue
            other = known.get(part.name)
            if other is None and new.type.name == _ANY_TYPE:
                other = self.reader.maps.types.get(part.name)
            if other is None or other.abstract or other.is_blocked(new):
                message = f"the type {local(part.name)} may be written in place of the declared one, but not be read"
                yield _failed(path, "derived_type_removed", local(part.name), None, message)
            else:
                yield Clause((ComponentPair("type", part, other),))

    def _types(self, old: Any, new: Any, path: str) -> Iterator[Clause[ComponentPair]]:
        if new.is_simple() and old.is_simple():
            for wrong in self._texts(old, new):
                yield _wrong(path, wrong)
            return
        yield from self._attributes(old, new, path)
        for test in sorted(_assertions(new) - _assertions(old)):
            yield Clause((), undecided(path, f"the assertion {test} is not proven", None, test))
        mine, theirs = (xsd if xsd.is_simple() else xsd.content for xsd in (old, new))
        match isinstance(mine, XsdGroup), isinstance(theirs, XsdGroup):
            case False, False:
                for wrong in self._texts(mine, theirs):
                    yield _wrong(path, wrong)
            case False, True:
                if not theirs.mixed or not _emptiable(new, self.spend):
                    message = "a text may be written, but elements are expected here"
                    yield _failed(path, "content_changed", _type(old), _type(new), message)
            case True, False:
                message = "elements may be written, but a text is expected here"
                yield _failed(path, "content_changed", _type(old), _type(new), message)
            case _:
                yield from self._contents(old, new, path)

    def _texts(self, old: Any, new: Any) -> list[simpletypes.SimpleTypeProblem]:
        if (old, new) not in self._simple:
            self._simple[old, new] = simpletypes.problems(old, new, self.spend)
        return self._simple[old, new]

    def _contents(self, old: Any, new: Any, path: str) -> Iterator[Clause[ComponentPair]]:
        if old.content.mixed and not new.content.mixed:
            message = "text may be written between the elements, but is not accepted here"
            yield _failed(path, "mixed_removed", "mixed", None, message)
        mine = models.model(old.content, self.spend, strict=False)
        theirs = models.model(new.content, self.spend, strict=True)
        yield from self._open(old, new, (mine, theirs), path)
        seen: set[object] = set()
        for outcome in models.compared(mine, theirs):
            for clause in self._outcome(outcome, mine, theirs, path):
                key = (clause.questions, str(clause.otherwise))
                if key not in seen:
                    seen.add(key)
                    yield clause

    def _open(
        self, old: Any, new: Any, both: tuple[models.ContentModel, models.ContentModel], path: str
    ) -> Iterator[Clause[ComponentPair]]:
        """Open content (XSD 1.1): the writer's has to be within the reader's, whose model may have no new names."""
        mine, theirs = (_open_content(one) for one in (old, new))
        if mine is None:
            return
        if theirs is None:
            message = "elements of any name may be written, but only the described ones are accepted here"
            yield _failed(path, "open_content_removed", mine.mode, None, message)
            return
        named = [{leaf.name for leaf in one.leaves} for one in both]
        if mine.mode != theirs.mode or not named[1] <= named[0]:
            yield Clause((), undecided(path, "open content of another kind", mine.mode, theirs.mode))
            return
        wild = [Leaf(one.any_element, "", names_of(one.any_element)) for one in (mine, theirs)]
        yield from self._wildcards(wild[0], wild[1], path)

    def _outcome(self, outcome: Outcome, mine: models.ContentModel, theirs: models.ContentModel, path: str) -> Clauses:
        match outcome:
            case Pair(writer, reader):
                return list(self._leaves(writer, reader, path))
            case Incomplete(expected):
                return [_incomplete(expected, mine, path)]
            case Unexpected(leaf) if self._is_impossible(leaf):
                return []
            case Unexpected(leaf, expected, repeated):
                if mine.loosened().is_partial:
                    return [Clause((), undecided(path, "an all-group of many elements"))]
                return [_unexpected(leaf, expected, (mine, theirs), path, repeated=repeated)]

    def _is_impossible(self, leaf: Leaf) -> bool:
        """Return True for a wildcard of the writer that asks for declared elements, of which there are none."""
        if leaf.names is None or _strictness(leaf) != "strict":
            return False
        return not any(leaf.names.allows(name) for name, _ in _globals(self.writer.maps.elements))

    def _leaves(self, writer: Leaf, reader: Leaf, path: str) -> Iterator[Clause[ComponentPair]]:
        """Yield what may be at one place for the writer and for the reader."""
        if writer.names is not None and reader.names is not None:
            yield from self._wildcards(writer, reader, path)
        elif writer.names is not None:
            yield from self._undescribed(writer, reader.component)
        elif reader.names is None:
            yield Clause((ComponentPair("element", writer.component, reader.component),))
        else:
            yield from self._undeclared(writer.component, _strictness(reader), path)

    def _undeclared(self, element: XsdElement, strictness: str, path: str) -> Iterator[Clause[ComponentPair]]:
        """An element that the reader's wildcard takes."""
        if strictness == "skip":
            return
        known = self.reader.maps.elements.get(element.name)
        if known is not None:
            yield Clause((ComponentPair("element", element, known),))
        elif strictness == "lax":
            yield Clause((ComponentPair("type", element.type, self.any_type),))
        else:
            message = f"{element.local_name} may be written, but is not declared here"
            yield _failed(path, "element_removed", element.local_name, None, message)

    def _undescribed(self, wildcard: Leaf, element: XsdElement) -> Iterator[Clause[ComponentPair]]:
        """An element of the reader's that the writer's wildcard lets be anything."""
        known = self.writer.maps.elements.get(element.name)
        strictness = _strictness(wildcard)
        if strictness != "skip" and known is not None:
            yield Clause((ComponentPair("element", known, element),))
        elif strictness != "strict" and not _is_anything(element):
            yield _failed(*_opened(element))

    def _wildcards(self, writer: Leaf, reader: Leaf, path: str) -> Iterator[Clause[ComponentPair]]:
        mine, theirs = _strictness(writer), _strictness(reader)
        assert writer.names is not None
        assert reader.names is not None
        if theirs == "skip":
            return
        if mine == "strict":
            for name, element in _globals(self.writer.maps.elements):
                self.spend(1)
                if writer.names.allows(name) and reader.names.allows(name):
                    yield from self._undeclared(element, theirs, path)
        elif theirs == "strict":
            message = "elements that are declared nowhere may be written, but are not accepted here"
            yield _failed(path, "wildcard_narrowed", mine, theirs, message)
        elif mine == "lax":
            yield Clause((ComponentPair("lax", None, None),))
        else:
            for _, element in _globals(self.reader.maps.elements):
                if not _is_anything(element):
                    yield _failed(*_opened(element))
            for _, attribute in _globals(self.reader.maps.attributes):
                if not _is_any_text(attribute.type):
                    yield _failed(*_opened(attribute))

    def _lax(self) -> Iterator[Clause[ComponentPair]]:
        """Yield the clauses for a place with any content: top-level declarations must match."""
        for name, element in _globals(self.reader.maps.elements):
            self.spend(1)
            known = self.writer.maps.elements.get(name)
            if known is not None:
                yield Clause((ComponentPair("element", known, element),))
            elif not _is_anything(element):
                yield _failed(*_opened(element))
        for name, attribute in _globals(self.reader.maps.attributes):
            known = self.writer.maps.attributes.get(name)
            wrongs = self._texts(known.type, attribute.type) if known is not None else []
            yield from (_wrong(_path(attribute), wrong) for wrong in wrongs)
            if known is None and not _is_any_text(attribute.type):
                yield _failed(*_opened(attribute))

    def _attributes(self, old: Any, new: Any, path: str) -> Iterator[Clause[ComponentPair]]:
        written, read = ({} if xsd.is_simple() else xsd.attributes for xsd in (old, new))
        self.spend(1 + len(written) + len(read))
        wildcards = [one.get(None) for one in (written, read)]
        for name, attribute in written.items():
            if name is not None and attribute.use != "prohibited":
                yield from self._attribute(attribute, read.get(name), wildcards[1])
        for name, attribute in read.items():
            if name is not None:
                yield from self._other_attribute(attribute, written.get(name), wildcards[0], name)
        if wildcards[0] is not None:
            yield from self._any_attributes(wildcards[0], wildcards[1], {*written, *read} - {None}, path)

    def _attribute(self, old: XsdAttribute, new: Any, wildcard: Any) -> Iterator[Clause[ComponentPair]]:
        if new is None and wildcard is not None and names_of(wildcard).allows(str(old.name)):
            if wildcard.process_contents == "skip":
                return
            new = self.reader.maps.attributes.get(old.name)
            if new is None and wildcard.process_contents == "lax":
                return
        if new is None or new.use == "prohibited":
            message = f"the attribute {old.local_name} may be written, but there is none of that name here"
            yield _failed(_path(old), "attribute_removed", _type(old.type), None, message)
            return
        path = _path(new)
        for wrong in self._texts(old.type, new.type):
            yield _wrong(path, wrong)
        yield from self._fixed(old, new, path)

    def _other_attribute(self, new: Any, old: Any, wildcard: Any, name: str) -> Iterator[Clause[ComponentPair]]:
        """Yield the clauses for a reader's attribute that the writer does not have, or need not write."""
        if new.use == "required" and (old is None or old.use != "required"):
            message = f"the attribute {new.local_name} is required here, but may be missing in what is written"
            yield _failed(_path(new), "attribute_required", None, _type(new.type), message)
        described = old is not None and old.use != "prohibited"
        if described or wildcard is None or new.use == "prohibited" or not names_of(wildcard).allows(name):
            return
        known = self.writer.maps.attributes.get(name) if wildcard.process_contents != "skip" else None
        if known is not None:
            yield from (_wrong(_path(new), wrong) for wrong in self._texts(known.type, new.type))
        elif wildcard.process_contents != "strict" and (not _is_any_text(new.type) or new.fixed is not None):
            yield _failed(*_opened(new))

    def _any_attributes(self, old: Any, new: Any, but: set[str], path: str) -> Iterator[Clause[ComponentPair]]:
        strict, named = old.process_contents, names_of(old)
        if new is None or not named.within([names_of(new)], but):
            message = "attributes of other names may be written, but not all of them are accepted here"
            shown = (str(named), None if new is None else str(names_of(new)))
            yield _failed(path, "any_attribute_removed" if new is None else "any_attribute_narrowed", *shown, message)
        elif _STRICTNESS.index(new.process_contents) > _STRICTNESS.index(strict):
            message = "attributes that are declared nowhere may be written, but have to be as declared here"
            yield _failed(path, "any_attribute_narrowed", strict, new.process_contents, message)
        elif strict != "skip" and new.process_contents != "skip":
            for name, attribute in _globals(self.reader.maps.attributes):
                known = self.writer.maps.attributes.get(name)
                if name in but or not named.allows(name):
                    continue
                if known is not None:
                    yield from (_wrong(_path(attribute), wrong) for wrong in self._texts(known.type, attribute.type))
                elif strict == "lax" and not _is_any_text(attribute.type):
                    yield _failed(*_opened(attribute))
            if new.process_contents == "strict":
                for name, attribute in _globals(self.writer.maps.attributes):
                    if named.allows(name) and name not in self.reader.maps.attributes and name not in but:
                        message = f"the attribute {local(name)} may be written, but is not declared here"
                        yield _failed(_path(attribute), "attribute_removed", _type(attribute.type), None, message)


def _failed(path: str, rule: str, old: Any, new: Any, message: str) -> Clause[ComponentPair]:
    return Clause((), fault(path, rule, old, new, message))


def _wrong(path: str, problem: simpletypes.SimpleTypeProblem) -> Clause[ComponentPair]:
    return _failed(path, *problem)


def _opened(part: Any) -> tuple[str, str, Any, Any, str]:
    kind = "attribute" if isinstance(part, XsdAttribute) else "element"
    message = f"{part.local_name} is described here, but the writer's wildcard lets it be anything"
    return _path(part), f"{kind}_added_to_open_content_model", "any", _type(part.type), message


def _incomplete(expected: tuple[Leaf, ...], mine: models.ContentModel, path: str) -> Clause[ComponentPair]:
    if not expected:
        message = "there is no content that is accepted here"
        return _failed(path, "nothing_accepted", None, None, message)
    # Of a sequence only the last of them has to be there.
    needed = expected[-1]
    shown = _leaves(expected)
    if needed.names is None and {leaf.name for leaf in expected} <= {leaf.name for leaf in mine.leaves}:
        rule, message = "min_occurs_increased", f"{shown} is needed here more often than it has to be written"
    else:
        rule, message = "element_required", f"{shown} is needed here, but may be missing in what is written"
    return _failed(f"{path}/{local(needed.name) or '*'}", rule, None, shown, message)


def _unexpected(
    leaf: Leaf,
    expected: tuple[Leaf, ...],
    both: tuple[models.ContentModel, models.ContentModel],
    path: str,
    *,
    repeated: bool,
) -> Clause[ComponentPair]:
    mine, theirs = both
    shown, wanted = _leaves((leaf,)), _leaves(expected)
    if leaf.names is not None:
        message = f"elements of {shown} may be written, but not all of them are accepted here"
        return _failed(path, "wildcard_narrowed", shown, wanted or None, message)
    here = f"{path}/{local(leaf.name)}"
    written = {other.name for other in mine.leaves}
    missing = [other for other in expected if other.names is None and other.name not in written]
    if not any(_takes(other, leaf) for other in theirs.leaves):
        message = f"the element {shown} may be written, but there is none of that name here"
        return _failed(here, "element_removed", shown, None, message)
    if repeated:
        message = f"{shown} may be written more often than it is accepted here"
        return _failed(here, "max_occurs_decreased", shown, wanted or None, message)
    if missing:
        message = f"{wanted} is needed here before {shown}"
        return _failed(f"{path}/{local(missing[0].name)}", "element_required", None, wanted, message)
    message = f"{shown} may be written where {wanted or 'the end'} is expected here"
    return _failed(here, "element_unexpected", shown, wanted or None, message)


def _takes(leaf: Leaf, other: Leaf) -> bool:
    return leaf.name == other.name if leaf.names is None else leaf.names.allows(other.name)


def _leaves(leaves: tuple[Leaf, ...]) -> str:
    names = [str(leaf.names) if leaf.names is not None else local(leaf.name) for leaf in leaves]
    return " or ".join(dict.fromkeys(names[:_MAX_NAMED]))


def _strictness(leaf: Leaf) -> str:
    return str(leaf.component.process_contents)


def _open_content(xsd: Any) -> Any:
    found = xsd.open_content
    return found if found is not None and found.mode != "none" and found.any_element is not None else None


def _emptiable(xsd: Any, spend: Callable[[int], None]) -> bool:
    model = models.model(xsd.content, spend, strict=True)
    return model.nullable(model.start)


def _globals(components: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Top-level declarations, without those of XML Schema itself."""
    for name, part in list(components.items()):
        if not name.startswith((XS, "{http://www.w3.org/2001/XMLSchema-instance}")):
            yield name, part


def _is_anything(element: Any) -> bool:
    return bool(element.type.name == _ANY_TYPE and element.nillable and not element.identities)


def _is_any_text(xsd: Any) -> bool:
    return xsd.name in (f"{XS}anySimpleType", f"{XS}anyAtomicType", f"{XS}string")


def _derived(schema: Any) -> dict[int, list[Any]]:
    """The named complex types derived from each type, nearer or farther."""
    found: dict[int, list[Any]] = {}
    for part in schema.maps.types.values():
        if part.is_simple() or part.name.startswith(XS):
            continue
        base, depth = part.base_type, 0
        while base is not None and base.name != _ANY_TYPE and depth < MAX_STEPS:
            found.setdefault(id(base), []).append(part)
            base, depth = base.base_type, depth + 1
    return found


def _identities(element: Any) -> set[tuple[str, ...]]:
    """Identity constraints in words that do not depend on prefixes; a key's name counts where it is referred to."""
    found = set()
    for identity in element.identities:
        parts = [local(identity.elem.tag), expanded(identity.selector, identity.selector.path)]
        parts += [expanded(part, part.path) for part in identity.fields]
        refer = getattr(identity, "refer", None)
        if refer is not None:
            parts += [f"refers to {refer.local_name}"]
        found.add(tuple(parts))
    return found


def _assertions(xsd: Any) -> set[str]:
    return set() if xsd.is_simple() else {expanded(test, test.path) for test in xsd.assertions}


def _value_space(xsd: Any) -> object:
    """Return what distinguishes equal texts as values of two types."""
    if not xsd.is_simple() and isinstance(xsd.content, XsdGroup):
        return "mixed"
    kind = xsd if xsd.is_simple() else xsd.content
    return getattr(getattr(kind, "primitive_type", None), "name", None), kind.white_space


def _type(xsd: Any) -> str:
    return str(xsd.local_name or ("a simple type" if xsd.is_simple() else "a complex type"))


def _path(part: Any) -> str:
    """The names of a declaration and of those it is in."""
    names: list[str] = []
    while part is not None:
        name = part.local_name
        if name and not (isinstance(part, XsdGroup) and part.parent is not None):
            names.append(f"@{name}" if isinstance(part, XsdAttribute) else name)
        part = part.parent
    return "/".join(reversed(names))
