"""The comparison of simple types by their texts: built-in types, facets, lists and unions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, NamedTuple

from xmlschema import names
from xmlschema.validators import XsdList, XsdUnion
from xmlschema.validators.simple_types import XsdAtomicBuiltin

from signalbook.formats.patternexamples import make_example
from signalbook.formats.xsd.limits import XS, local_name

_MAX_NESTING: Final = 16
_MAX_EXAMPLES: Final = 5
_ANY_TYPES: Final = frozenset({f"{XS}anySimpleType", f"{XS}anyAtomicType"})
_SPACES: Final = ("preserve", "replace", "collapse")
# Types whose values must be unique in the document or refer to another value in it.
_IDENTITIES: Final = frozenset({f"{XS}ID", f"{XS}IDREF", f"{XS}ENTITY"})
_NAMESPACED: Final = frozenset({f"{XS}QName", f"{XS}NOTATION"})
# Pairs of types (narrower, wider): every Name and language is also an NMTOKEN, every language also an NCName.
_NAME, _LANGUAGE, _NMTOKEN = (f"{XS}{name}" for name in ("Name", "language", "NMTOKEN"))
_WIDER_TYPES: Final = ((_NAME, _NMTOKEN), (_LANGUAGE, _NMTOKEN), (_LANGUAGE, f"{XS}NCName"))
# The largest integer up to which all integers are exact, by float type.
_MAX_EXACT_INTEGERS: Final = {names.XSD_FLOAT: 2**24, names.XSD_DOUBLE: 2**53}
# Types that differ from strings only in the treatment of white space.
_WHITESPACE_TYPES: Final = frozenset({f"{XS}normalizedString", f"{XS}token"})
# Example texts of many types, affixes that turn a number or date into other texts, and the maximum repetitions of a
# text, which may have at most ``_MAX_REPEATED_CHARS`` characters afterwards.
_EXAMPLES: Final = (
    "", "a", "A", "ab", "abcde", "a b", "a:b", "_", "a\nb", "é", "0", "1", "-1", "01", "1.0", "1.5", "1e0", "123456789",
    "INF", "true", "false", "2020-01-01", "2020-01-01Z", "2020-01-01T00:00:00", "12:00:00", "P1D", "P1M", "YWI=",
    "0aff",
)  # fmt: skip
_EXAMPLE_AFFIXES: Final = (("", ""), ("", ".5"), ("", ".0"), ("", "e0"), ("+", ""), ("0", ""), ("", "1"), ("", "Z"))
_MAX_REPETITIONS: Final = 300
_MAX_REPEATED_CHARS: Final = 10_000
# The steps for generating a text from a pattern, and the minimum lengths of the generated texts.
_EXAMPLE_STEPS: Final = 200
_EXAMPLE_CHARS: Final = (0, 1, 2, 4, 8, 16)
_LENGTH_FACETS: Final = (names.XSD_LENGTH, names.XSD_MIN_LENGTH, names.XSD_MAX_LENGTH)


class SimpleTypeProblem(NamedTuple):
    """A reason why a text may not be accepted: the rule, the types or values of writer and reader, and a message."""

    rule: str
    old: str
    new: str
    message: str


class _Facets:
    """The combined restrictions of a type and the types that it restricts."""

    def __init__(self, xsd: Any) -> None:
        self.xsd = xsd
        self.chain = list(_list_chain(xsd))

    @cached_property
    def builtin(self) -> Any:
        """The nearest built-in type that is restricted, or the list or union that is restricted."""
        return self.chain[-1]

    @property
    def primitive(self) -> str:
        return str(self.builtin.primitive_type.name) if isinstance(self.builtin, XsdAtomicBuiltin) else ""

    @property
    def spaces(self) -> int:
        white_space = self.xsd.white_space
        return _SPACES.index(white_space) if white_space in _SPACES else 0

    def find_facet(self, tag: str) -> Any:
        """Return the nearest facet with the name ``tag``, also if a built-in type defines it; None if there is none."""
        return next((part.facets[tag] for part in self.chain if tag in part.facets), None) or _find_inherited(
            self.builtin, tag
        )

    def find_value(self, tag: str) -> Any:
        return getattr(self.find_facet(tag), "value", None)

    @cached_property
    def patterns(self) -> list[frozenset[str]]:
        """The patterns of each restriction, one of which must match; patterns of built-in types are left out."""
        restrictions = (part for part in self.chain if not isinstance(part, XsdAtomicBuiltin))
        return [
            frozenset(part.facets[names.XSD_PATTERN].regexps)
            for part in restrictions
            if names.XSD_PATTERN in part.facets
        ]

    @cached_property
    def assertions(self) -> frozenset[str]:
        assertions: list[str] = []
        for part in self.chain:
            tests = part.facets.get(names.XSD_ASSERTION, [])
            assertions += [test.path for test in (tests if isinstance(tests, list) else [tests])]
        return frozenset(assertions)

    @cached_property
    def enumeration(self) -> list[str] | None:
        """The listed texts of the nearest enumeration, or None if there is none."""
        for part in self.chain:
            if names.XSD_ENUMERATION in part.facets:
                return [element.get("value", "") for element in part.facets[names.XSD_ENUMERATION]]
        return None

    @cached_property
    def lengths(self) -> tuple[int, float]:
        """The minimum and the maximum number of characters, bytes or items."""
        if self.primitive in _NAMESPACED:
            # Their length facets exclude no name (XSD 1.1 part 2, 4.3.1.3), and the library ignores them, too.
            return 1, float("inf")
        length, least, most = (self.find_value(tag) for tag in _LENGTH_FACETS)
        if length is not None:
            return length, length
        # Names, numbers, dates and the like are never empty, although no facet says so.
        return max(least or 0, int(_is_one_item(self))), float("inf") if most is None else most

    @property
    def is_integer(self) -> bool:
        return isinstance(self.builtin, XsdAtomicBuiltin) and issubclass(self.builtin.python_type, int)

    @cached_property
    def digits(self) -> tuple[float, float]:
        """The maximum number of digits of a decimal, in total and in its fraction, by facets and bounds."""
        total, fraction = self.asked_digits
        (low, _), (high, _) = self.bounds
        if self.is_integer and low is not None and high is not None:
            total = min(total, max(len(str(abs(int(bound)))) for bound in (low, high)))
        return total, 0 if self.is_integer else min(fraction, total)

    @property
    def asked_digits(self) -> tuple[float, float]:
        """The maximum number of digits, in total and in the fraction, that the facets alone set;
        infinity if unlimited.
        """
        total, fraction = self.find_value(names.XSD_TOTAL_DIGITS), self.find_value(names.XSD_FRACTION_DIGITS)
        endless = float("inf")
        return endless if total is None else total, endless if fraction is None else fraction

    @cached_property
    def bounds(self) -> tuple[tuple[Any, bool], tuple[Any, bool]]:
        """The minimum and the maximum, each with True if the bound itself is allowed; None instead of a bound that is
        not set.
        """
        bounds = []
        tags = ((names.XSD_MIN_INCLUSIVE, names.XSD_MIN_EXCLUSIVE), (names.XSD_MAX_INCLUSIVE, names.XSD_MAX_EXCLUSIVE))
        for side, (inclusive, exclusive) in enumerate(tags):
            inside, outside = self.find_value(inclusive), self.find_value(exclusive)
            if outside is not None and self.is_integer:
                near = int(outside) + (-1 if side else 1)
                inside = near if inside is None else (min if side else max)(inside, near)
                outside = None
            if inside is not None and outside is not None:
                takes_inside = inside < outside if side else inside > outside
                inside, outside = (inside, None) if takes_inside else (None, outside)
            bounds.append((outside, False) if inside is None else (inside, True))
        return bounds[0], bounds[1]


def _list_chain(xsd: Any) -> Iterator[Any]:
    """Yield a type and the types that it restricts, up to a built-in type, a list or a union."""
    while True:
        if not xsd.is_simple():
            xsd = xsd.content
        yield xsd
        if isinstance(xsd, (XsdAtomicBuiltin, XsdList, XsdUnion)) or xsd.base_type is None:
            return
        xsd = xsd.base_type


def _find_inherited(builtin: Any, tag: str) -> Any:
    while builtin is not None:
        if tag in builtin.facets:
            return builtin.facets[tag]
        builtin = getattr(builtin, "base_type", None)
    return None


def find_problems(writer: Any, reader: Any, spend: Callable[[int], None]) -> list[SimpleTypeProblem]:
    """Return why ``reader`` may refuse a text of ``writer`` or read it differently; empty if it accepts all texts."""
    problems = _find_problems(writer, reader, spend, 0)
    if not problems or any(problem.rule in ("undecided", "whitespace_changed") for problem in problems):
        return problems
    old, new = _Facets(writer), _Facets(reader)
    # Listed values and patterns may exclude texts that the writer's type allows. All texts of the writer may match the
    # reader's pattern or some member of the reader's union. So an example text has to confirm the reasons.
    if not (old.enumeration or old.patterns or new.patterns or isinstance(new.builtin, XsdUnion)):
        return problems
    for text in _make_examples(old, new, spend):
        spend(1)
        if writer.text_is_valid(text) and not reader.text_is_valid(text):
            return problems
    return [_make_undecided_problem(writer, reader, "no text was found that is refused")]


def _make_examples(old: _Facets, new: _Facets, spend: Callable[[int], None]) -> Iterator[str]:
    """Yield example texts of many types, then texts made from the facets of both types."""
    bounds = [str(bound) for facets in (old, new) for bound, _ in facets.bounds if bound is not None]
    listed = old.enumeration or []
    numbers = [*bounds, *listed[:_MAX_EXAMPLES]]
    texts = [*_EXAMPLES, *listed, *(start + text + end for text in numbers for start, end in _EXAMPLE_AFFIXES)]
    yield from texts
    patterns = [pattern for part in old.patterns for pattern in sorted(part)][:_MAX_EXAMPLES]
    spend(_EXAMPLE_STEPS * len(patterns))
    examples = (make_example(pattern, chars) for pattern in patterns for chars in _EXAMPLE_CHARS)
    yield from (text for text in examples if text is not None)
    limits = (limit for low, high in (old.lengths, new.lengths) for limit in (low, high + 1))
    for count in {int(limit) for limit in limits if limit <= _MAX_REPETITIONS}:
        short_texts = (text for text in texts if len(text) * count <= _MAX_REPEATED_CHARS)
        yield from ((text + space) * count for text in short_texts for space in ("", " "))


def _find_problems(writer: Any, reader: Any, spend: Callable[[int], None], depth: int) -> list[SimpleTypeProblem]:
    spend(1)
    if writer is reader or (writer.name == reader.name and isinstance(reader, XsdAtomicBuiltin)):
        return []
    if reader.name in _ANY_TYPES:
        return []
    if depth > _MAX_NESTING:
        return [_make_undecided_problem(writer, reader, "the types are nested too deep")]
    old, new = _Facets(writer), _Facets(reader)
    spend(len(old.chain) + len(new.chain))
    if isinstance(new.builtin, XsdUnion):
        return _compare_union(old, new, spend, depth)
    if isinstance(old.builtin, XsdUnion) and old.enumeration is None:
        return [
            part for member in old.builtin.member_types for part in _find_problems(member, reader, spend, depth + 1)
        ]
    if old.enumeration is not None and (problems_of_values := _compare_listed(old, new, spend)) is not None:
        return problems_of_values
    return _compare_varieties(old, new, spend, depth)


def _compare_varieties(old: _Facets, new: _Facets, spend: Callable[[int], None], depth: int) -> list[SimpleTypeProblem]:
    is_list = isinstance(old.builtin, XsdList)
    if isinstance(new.builtin, XsdList):
        if not is_list and not _is_one_item(old):
            # The writer's patterns may exclude spaces. So type_changed is used, which needs an example that is refused.
            rule = "type_changed" if old.patterns or not _takes_any_list(new) else "whitespace_changed"
            message = "texts with spaces would be read as lists"
            return [SimpleTypeProblem(rule, *_format_both(old, new), message)]
        items = old.builtin.item_type if is_list else old.xsd
        problems = _find_problems(items, new.builtin.item_type, spend, depth + 1)
        lengths = old.lengths if is_list else (1, 1)
        return problems or [
            *_compare_ranges(lengths, new.lengths, "items"),
            *_compare_texts(old, new),
            *_compare_values(old, new, same=is_list),
        ]
    if is_list:
        if not _takes_any_text(new) and new.builtin.name not in _WHITESPACE_TYPES:
            return [_make_changed_problem(old.xsd, new.xsd, "a list need not be such a text")]
        return _compare_as_text(old, new)
    return _compare_atomic(old, new)


def _is_one_item(facets: _Facets) -> bool:
    """Return True if no text of an atomic type is empty or contains spaces."""
    if facets.primitive == names.XSD_STRING:
        return any(_is_derived(facets.builtin, name) for name in (_NAME, _LANGUAGE, _NMTOKEN))
    return facets.primitive not in ("", names.XSD_ANY_URI, names.XSD_BASE64_BINARY, names.XSD_HEX_BINARY)


def _takes_any_list(facets: _Facets) -> bool:
    """Return True if a list type accepts every text."""
    items = _Facets(facets.builtin.item_type)
    if _is_restricted(facets) or _is_restricted(items):
        return False
    return _takes_any_text(items) or items.builtin.name in _WHITESPACE_TYPES


def _compare_union(old: _Facets, new: _Facets, spend: Callable[[int], None], depth: int) -> list[SimpleTypeProblem]:
    if old.xsd is new.xsd or (old.builtin is new.builtin and not _is_restricted(new)):
        return []
    if old.enumeration is not None and (problems := _compare_listed(old, new, spend)) is not None:
        return problems
    if _is_restricted(new) and not (
        _is_restricted(old) and old.patterns == new.patterns and new.enumeration is None and not new.assertions
    ):
        return [_make_undecided_problem(old.xsd, new.xsd, "the union is restricted")]
    members = old.builtin.member_types if isinstance(old.builtin, XsdUnion) else [old.xsd]
    problems = []
    for member in members:
        problems_by_member = [
            _find_problems(member, reader_member, spend, depth + 1) for reader_member in new.builtin.member_types
        ]
        if all(problems_by_member):
            # A text that is refused by one member because of listed values may be accepted by another member.
            other_rules = {"type_changed", "value_refused"}
            near = [reasons for reasons in problems_by_member if other_rules.isdisjoint(part.rule for part in reasons)]
            changed = [_make_changed_problem(member, new.xsd, "no member of the union takes all of it")]
            problems += near[0] if len(near) == 1 else changed
    return problems


def _is_restricted(facets: _Facets) -> bool:
    """Return True if a union or a list is restricted."""
    return any(set(part.facets) - {names.XSD_WHITE_SPACE} for part in facets.chain)


def _compare_listed(old: _Facets, new: _Facets, spend: Callable[[int], None]) -> list[SimpleTypeProblem] | None:
    """Return the problems of the writer's listed texts, tested with the reader.

    None means that this test does not decide, because a listed value may be written as other texts.
    """
    texts = old.enumeration or []
    if old.primitive in _NAMESPACED or new.primitive in _NAMESPACED | _IDENTITIES:
        return None
    if any(_is_derived(facets.builtin, name) for facets in (old, new) for name in _IDENTITIES):
        return None
    spend(len(texts) * (1 + len(new.enumeration or ()) // 50))
    refused = [text for text in texts if old.xsd.text_is_valid(text) and not new.xsd.text_is_valid(text)]
    if refused:
        examples = ", ".join(text[:50] for text in refused[:_MAX_EXAMPLES])
        rule = "enumeration_narrowed" if new.enumeration is not None else "value_refused"
        message = f"{examples} may be written, but is not accepted here"
        return [SimpleTypeProblem(rule, examples, _name_type(new.xsd), message)]
    exact = old.primitive in (names.XSD_STRING, names.XSD_ANY_URI) and old.spaces <= new.spaces
    by_value = old.primitive == new.primitive not in ("", names.XSD_STRING) and old.is_integer >= new.is_integer
    if exact or (by_value and new.patterns == []):
        return []
    if new.enumeration is None or set(texts) <= set(new.enumeration):
        return None
    return [_make_undecided_problem(old.xsd, new.xsd, "a listed value may have other texts")]


def _compare_atomic(old: _Facets, new: _Facets) -> list[SimpleTypeProblem]:
    if new.primitive in _MAX_EXACT_INTEGERS and old.primitive != new.primitive:
        return _compare_floats(old, new)
    takes_any_text = _takes_any_text(new)
    if old.primitive not in (names.XSD_STRING, new.primitive) and (
        takes_any_text or new.builtin.name in _WHITESPACE_TYPES
    ):
        return _compare_as_text(old, new)
    why = f"a {_name_type(old.xsd)} need not be a {_name_type(new.xsd)}"
    if old.primitive != new.primitive and not takes_any_text:
        return [_make_changed_problem(old.xsd, new.xsd, why)]
    if old.primitive == names.XSD_DECIMAL:
        if new.is_integer and not old.is_integer:
            return [_make_narrowed_problem(old.xsd, new.xsd, "decimals may have a point, integers may not")]
    elif not takes_any_text and not _is_within(old.builtin, new.builtin):
        return [_make_narrowed_problem(old.xsd, new.xsd, why)]
    elif _find_identity_type(old.builtin) != _find_identity_type(new.builtin):
        why = "identifiers and references to them are checked in the whole document"
        return [_make_undecided_problem(old.xsd, new.xsd, why)]
    if old.spaces < new.spaces:
        message = "white space is written that is not kept here"
        return [SimpleTypeProblem("whitespace_changed", *_format_both(old, new), message)]
    constrained = new.patterns or new.enumeration is not None or new.lengths != (0, float("inf"))
    if old.spaces > new.spaces and constrained:
        message = "white space counts here, but does not for the writer"
        return [SimpleTypeProblem("whitespace_changed", *_format_both(old, new), message)]
    return [
        *_compare_ranges(old.lengths, new.lengths, "characters"),
        *_compare_texts(old, new),
        *_compare_values(old, new, same=True),
    ]


def _takes_any_text(facets: _Facets) -> bool:
    """Return True if the built-in type accepts every text. An anyURI has to be a URI only in XSD
    1.0 (part 2, 3.2.17).
    """
    name = facets.builtin.name
    return bool(name == names.XSD_STRING or (name == names.XSD_ANY_URI and facets.xsd.xsd_version != "1.0"))


def _compare_floats(old: _Facets, new: _Facets) -> list[SimpleTypeProblem]:
    if old.primitive == names.XSD_FLOAT:
        return _compare_texts(old, new) + _compare_values(old, new, same=False)
    if old.primitive not in (names.XSD_DECIMAL, names.XSD_DOUBLE):
        return [_make_changed_problem(old.xsd, new.xsd, f"a {_name_type(old.xsd)} need not be a number")]
    exact = _MAX_EXACT_INTEGERS[new.primitive]
    (low, _), (high, _) = old.bounds
    problems = _compare_texts(old, new) + _compare_values(old, new, same=False)
    if not old.is_integer or low is None or high is None or low < -exact or high > exact:
        message = f"a {_name_type(old.xsd)} may have more digits than a {local_name(new.primitive)}"
        problems.append(_make_narrowed_problem(old.xsd, new.xsd, message))
    return problems


def _compare_as_text(old: _Facets, new: _Facets) -> list[SimpleTypeProblem]:
    """Return the problems of reading values of any kind as a type whose values are texts."""
    # A text has at least as many characters as its value has items or bytes.
    has_length = old.lengths[0] >= new.lengths[0] and new.lengths[1] == float("inf")
    is_matched = all(_takes_all_lines(new, patterns) for patterns in new.patterns)
    if not is_matched or new.enumeration is not None or new.assertions or not has_length:
        why = f"the text of a {_name_type(old.xsd)} need not be one that is accepted here"
        return [_make_changed_problem(old.xsd, new.xsd, why)]
    return []


def _is_derived(builtin: Any, name: str) -> bool:
    while builtin is not None:
        if builtin.name == name:
            return True
        builtin = getattr(builtin, "base_type", None)
    return False


def _is_within(old: Any, new: Any) -> bool:
    return (
        new.name in _WHITESPACE_TYPES
        or _is_derived(old, new.name)
        or any(_is_derived(old, name) and _is_derived(wider_type(old, wider), new.name) for name, wider in _WIDER_TYPES)
    )


def wider_type(builtin: Any, name: str) -> Any:
    """Return the built-in type ``name``."""
    return builtin.maps.types[name]


def _find_identity_type(builtin: Any) -> str:
    return next((name for name in _IDENTITIES if _is_derived(builtin, name)), "")


def _compare_ranges(old: tuple[float, float], new: tuple[float, float], unit: str) -> list[SimpleTypeProblem]:
    problems = []
    if old[0] < new[0]:
        message = f"texts of {old[0]} {unit} may be written, but at least {new[0]} are needed here"
        problems.append(SimpleTypeProblem("min_length_increased", str(old[0]), str(new[0]), message))
    if old[1] > new[1]:
        rule = "max_length_added" if old[1] == float("inf") else "max_length_decreased"
        old_maximum = "any number of" if old[1] == float("inf") else str(old[1])
        message = f"texts of {old_maximum} {unit} may be written, but at most {new[1]} are accepted here"
        problems.append(SimpleTypeProblem(rule, old_maximum, str(new[1]), message))
    return problems


def _compare_texts(old: _Facets, new: _Facets) -> list[SimpleTypeProblem]:
    """Return the patterns and assertions of the reader that the writer does not have. They are
    compared by their text only.
    """
    problems = []
    for required in new.patterns:
        if _takes_all_lines(new, required) or any(writer_patterns <= required for writer_patterns in old.patterns):
            continue
        pattern_text = " or ".join(sorted(required))
        rule = "pattern_changed" if old.patterns else "pattern_added"
        before = " or ".join(sorted(old.patterns[0])) if old.patterns else "any text"
        message = f"texts may be written that need not match {pattern_text}; patterns are not compared with each other"
        problems.append(SimpleTypeProblem(rule, before, pattern_text, message))
    for test in sorted(new.assertions - old.assertions):
        problems.append(_make_undecided_problem(old.xsd, new.xsd, f"the assertion {test} is not proven"))
    return problems


def _takes_all_lines(facets: _Facets, patterns: frozenset[str]) -> bool:
    """Return True if `.*` is among ``patterns`` and the type replaces line breaks, so that every text matches."""
    return facets.spaces > 0 and ".*" in patterns


def _compare_values(old: _Facets, new: _Facets, *, same: bool) -> list[SimpleTypeProblem]:
    problems = []
    if new.enumeration is not None and (old.enumeration is None or not same or old.primitive in _NAMESPACED):
        message = "only listed values are accepted here, but others may be written"
        if old.enumeration is None or set(old.enumeration) - set(new.enumeration) or old.primitive in _NAMESPACED:
            problems.append(SimpleTypeProblem("enumeration_added", *_format_both(old, new), message))
    for side, word in enumerate(("min", "max")):
        if not _is_inside(old, new, side):
            (before, _), (after, _) = old.bounds[side], new.bounds[side]
            rule = f"{word}imum_added" if before is None else f"{word}imum_{'decreased' if side else 'increased'}"
            message = f"values {'above' if side else 'below'} {after} may be written, but are not accepted here"
            problems.append(SimpleTypeProblem(rule, str(before), str(after), message))
    if new.primitive == names.XSD_DECIMAL:
        for before, after, digits in zip(old.digits, new.asked_digits, ("total", "fraction"), strict=True):
            if before > after:
                message = f"numbers of more than {after} {digits} digits may be written"
                problems.append(SimpleTypeProblem(f"{digits}_digits_decreased", str(before), str(after), message))
    zone = new.find_value(names.XSD_EXPLICIT_TIMEZONE)
    if zone in ("required", "prohibited") and old.find_value(names.XSD_EXPLICIT_TIMEZONE) != zone:
        message = f"a time zone is {zone} here, but not for the writer"
        problems.append(SimpleTypeProblem("timezone_changed", *_format_both(old, new), message))
    return problems


def _is_inside(old: _Facets, new: _Facets, side: int) -> bool:
    reader_bound, takes_it = new.bounds[side]
    if reader_bound is None:
        return True
    writer_bound, has_it = old.bounds[side]
    if writer_bound is None and old.primitive == names.XSD_DECIMAL and old.asked_digits[0] != float("inf"):
        most = Decimal(10) ** int(old.asked_digits[0])
        writer_bound, has_it = (most if side else -most), False
        if old.is_integer:
            writer_bound, has_it = int(writer_bound) + (-1 if side else 1), True
    if writer_bound is None:
        return False
    try:
        if old.primitive != names.XSD_DECIMAL and getattr(writer_bound, "tzinfo", None) != getattr(
            reader_bound, "tzinfo", None
        ):
            return False
        if writer_bound == reader_bound:
            return takes_it or not has_it
        return bool(writer_bound < reader_bound if side else writer_bound > reader_bound)
    except TypeError:
        return False


def _format_both(old: _Facets, new: _Facets) -> tuple[str, str]:
    return _name_type(old.xsd), _name_type(new.xsd)


def _make_changed_problem(old: Any, new: Any, why: str) -> SimpleTypeProblem:
    return SimpleTypeProblem("type_changed", _name_type(old), _name_type(new), why)


def _make_narrowed_problem(old: Any, new: Any, why: str) -> SimpleTypeProblem:
    return SimpleTypeProblem("type_narrowed", _name_type(old), _name_type(new), why)


def _make_undecided_problem(old: Any, new: Any, why: str) -> SimpleTypeProblem:
    message = f"it could not be shown that all that may be written is accepted: {why}"
    return SimpleTypeProblem("undecided", _name_type(old), _name_type(new), message)


def _name_type(xsd: Any) -> str:
    """Return a type as text for messages."""
    if xsd.local_name:
        return str(xsd.local_name)
    top = list(_list_chain(xsd))[-1]
    if isinstance(top, XsdUnion):
        return "union"
    return f"list of {_name_type(top.item_type)}" if isinstance(top, XsdList) else f"restricted {top.local_name}"
