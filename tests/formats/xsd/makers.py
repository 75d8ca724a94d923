"""Random XML Schemas that are nearly always valid, changed schemas, and documents that are likely to be of a schema."""

from collections.abc import Collection, Iterator, Sequence
from copy import deepcopy
from random import Random
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, tostring

from xmlschema.validators import XsdAnyElement, XsdElement, XsdGroup

from signalbook.formats.compatibility import SchemaText

XS: Final = "http://www.w3.org/2001/XMLSchema"
XSI: Final = "{http://www.w3.org/2001/XMLSchema-instance}"
# Attributes that the library declares in every schema.
PREDEFINED: Final = [f"{{http://www.w3.org/XML/1998/namespace}}{name}" for name in ("lang", "space", "id", "base")] + [
    f"{{http://www.w3.org/2007/XMLSchema-versioning}}{name}Version" for name in ("min", "max")
]
NAMES: Final = ["a", "b", "c", "d", "e"]
COMPLEX: Final = ["C0", "C1"]
SIMPLE: Final = ["S0", "S1"]
ROOTS: Final = ["r", "q"]  # an element for each complex type
_TEXT_FACETS: Final = ("lengths", "lengths", "pattern", "enumeration")
_WORDS: Final = ("a", "ab", "abc", "b", "abcd")
_INTEGERS: Final = ("1", "2", "3", "4", "5", "12")
_DAYS: Final = tuple(f"2020-01-0{day}" for day in range(1, 7))
# Built-in types with the facets that restrict them and texts that all of them accept.
FAMILIES: Final[list[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]] = [
    (("string", "normalizedString", "token"), _TEXT_FACETS, (*_WORDS, "a b", "1", "12")),
    (("NMTOKEN", "NCName", "language", "anyURI"), _TEXT_FACETS, _WORDS),
    (("integer", "int", "short", "byte", "unsignedByte", "positiveInteger"),
     ("bounds", "bounds", "totalDigits", "pattern", "enumeration"), _INTEGERS),
    (("decimal",), ("bounds", "bounds", "totalDigits", "fractionDigits", "pattern", "enumeration"),
     (*_INTEGERS, "1.5", "0.25")),
    (("double", "float"), ("bounds", "pattern", "enumeration"), (*_INTEGERS, "1.5", "1e3", "INF")),
    (("date",), ("bounds", "enumeration"), _DAYS),
    (("boolean",), ("pattern",), ("1",)),
]  # fmt: skip
BUILTIN: Final = [name for names, _, _ in FAMILIES for name in names]
# Built-in types that accept the text 1, for fixed and default values.
_WITH_ONE: Final = ["string", "token", "int", "short", "decimal", "boolean"]
TEXTS: Final = [
    *dict.fromkeys(text for _, _, texts in FAMILIES for text in texts),
    "", " a ", "x y z", "abcde", "a:b", "A", "01", "1.0", "1.50", "1.555", "-1", "0", "6", "7", "127", "200", "-129",
    "999", "1234", "12345", "40000", "99999999999", "true", "2020-01-09", "2019-12-31Z", "1 2", "1 2 3 4", "\t",
    "1e0", "2e0", "3e0", "4e0", "5e0", "a\tb", "+1", "+2", "+3", "+4", "+5", "2.5", "3.5", "4.5", "5.5", "3.14159265",
    "-40000", "0000001", "abcdef", "abcdefg", "_", "_a", "a_b", "abcdefghi",
]  # fmt: skip
_GROUPS: Final = ("sequence", "choice", "all")


def make(tag: str, *children: Element, **attributes: str) -> Element:
    """Return an element of an XML Schema."""
    node = Element(tag, attributes)
    node.extend(children)
    return node


def write(schema: Element) -> SchemaText:
    """Return the document of a schema."""
    prefixed = deepcopy(schema)
    for node in prefixed.iter():
        node.tag = f"xs:{node.tag}"
    return SchemaText(document=tostring(prefixed), format="XSD/1.1")


class Maker:
    """Schemas and changed schemas by chance.

    Each name stands for one type in a whole schema and is in a content model once, so that models are deterministic.
    """

    def __init__(self, dice: Random) -> None:
        self.dice = dice

    def schema(self) -> Element:
        types = {name: self.type_name() for name in NAMES}
        schema = make("schema", **{"xmlns:xs": XS})
        schema.extend([self.simple(name) for name in SIMPLE])
        schema.extend([self.complex(name, types) for name in COMPLEX])
        schema.extend(
            make("element", name=name, type=type_name) for name, type_name in zip(ROOTS, COMPLEX, strict=True)
        )
        if self.dice.random() < 0.3:
            schema.append(make("element", name="h", type="xs:int"))
            for name in ("s", "t"):
                if self.dice.random() < 0.6:
                    kind = self.dice.choice(["int", "byte"])
                    schema.append(make("element", name=name, type=f"xs:{kind}", substitutionGroup="h"))
            if self.dice.random() < 0.7:
                group = next((node for node in schema.iter() if node.tag in _GROUPS[:2]), None)
                if group is not None:
                    group.append(make("element", ref="h", minOccurs="0"))
        _simplify(schema)
        return schema

    def type_name(self) -> str:
        return self.dice.choice([*COMPLEX, *SIMPLE, *SIMPLE, "xs:int", "xs:string", "xs:anyType"])

    def simple(self, name: str) -> Element:
        chance = self.dice.random()
        if chance < 0.1:
            inner = make("list", itemType=f"xs:{self.dice.choice(BUILTIN)}")
            if self.dice.random() < 0.5:
                inner = make("restriction", make("simpleType", inner), *self.facet("lengths", ()))
        elif chance < 0.25:
            inner = make(
                "union", memberTypes=" ".join(f"xs:{member_type}" for member_type in self.dice.sample(BUILTIN, 2))
            )
        else:
            inner = self.restriction()
        return make("simpleType", inner, name=name)

    def restriction(self) -> Element:
        names, facets, texts = self.dice.choice(FAMILIES)
        base = self.dice.choice(names)
        inner = make("restriction", base=f"xs:{base}")
        chosen = [*dict.fromkeys(self.dice.choices(facets, k=self.dice.randint(0, 2)))]
        # Beside a pattern or listed values, others may forbid what is no longer possible.
        alone = [facet for facet in chosen if facet in ("pattern", "enumeration")]
        for facet in alone[:1] or chosen:
            inner.extend(self.facet(facet, texts))
        return inner

    def facet(self, name: str, texts: Sequence[str]) -> list[Element]:
        """Return one or two facets that do not contradict others."""
        dice = self.dice
        low, high = dice.randint(1, 3), dice.randint(4, 6)
        if name == "lengths":
            if dice.random() < 0.2:
                return [make("length", value=str(low))]
            pair = [make("minLength", value=str(low)), make("maxLength", value=str(dice.choice([3, high])))]
        elif name == "bounds":
            ends = (texts[0][:-1] + str(low), texts[0][:-1] + str(high))
            kinds = (dice.choice(["minInclusive", "minExclusive"]), dice.choice(["maxInclusive", "maxExclusive"]))
            pair = [make(kind, value=end) for kind, end in zip(kinds, ends, strict=True)]
        elif name == "enumeration":
            return [make(name, value=text) for text in dice.sample(texts, min(len(texts), low))]
        elif name == "pattern":
            return [make(name, value=dice.choice(["[a-z]+", ".*", "a.*", "\\w{1,3}"] if "a" in texts else
                                                 ["\\d+", "\\d{1,2}", "1.*", "-?\\d+(\\.\\d+)?"]))]  # fmt: skip
        else:
            return [make(name, value=str({"totalDigits": high, "fractionDigits": low - 1}[name]))]
        return pair if dice.random() < 0.3 else [dice.choice(pair)]

    def complex(self, name: str, types: dict[str, str]) -> Element:
        if self.dice.random() < 0.1:
            base = make("extension", *self.attributes(), base=self.dice.choice([*SIMPLE, "xs:int"]))
            return make("complexType", make("simpleContent", base), name=name)
        names = self.dice.sample(NAMES, 3)
        if self.dice.random() < 0.2:
            group = make("all", *(self.particle(child_name, types[child_name], ("", "?")) for child_name in names))
        else:
            group = self.group(names, types, 0)
        complex_type = make("complexType", group, *self.attributes(), name=name)
        if self.dice.random() < 0.15:
            complex_type.set("mixed", "true")
        return complex_type

    def attributes(self) -> list[Element]:
        attributes = [self.attribute(name) for name in ("x", "y") if self.dice.random() < 0.5]
        if self.dice.random() < 0.15:
            attributes.append(make("anyAttribute", processContents=self.dice.choice(["lax", "skip", "strict"])))
        return attributes

    def attribute(self, name: str) -> Element:
        chance = self.dice.random()
        if chance < 0.3:
            kind = "default" if chance < 0.15 else "fixed"
            return make("attribute", name=name, type=f"xs:{self.dice.choice(_WITH_ONE)}", **{kind: "1"})
        node = make("attribute", name=name, type=self.dice.choice([*SIMPLE, "xs:int", "xs:short"]))
        if chance < 0.6:
            node.set("use", "required")
        return node

    def particle(self, name: str, type_name: str, kinds: Sequence[str] = ("", "", "?", "*", "+", "2,3")) -> Element:
        """Return an element. One of a complex type may be missing, so that documents come to an end."""
        node = make("element", name=name, type=type_name)
        if self.dice.random() < 0.05:
            node.set("nillable", "true")
        if type_name in COMPLEX:
            kinds = [kind for kind in kinds if kind in ("?", "*")]
        return self.bounded(node, kinds)

    def bounded(self, node: Element, kinds: Sequence[str]) -> Element:
        kind = self.dice.choice(kinds)
        bounds = {"": "1,1", "?": "0,1", "*": "0,unbounded", "+": "1,unbounded"}.get(kind, kind)
        node.attrib.update(zip(("minOccurs", "maxOccurs"), bounds.split(","), strict=True))
        return node

    def group(self, names: list[str], types: dict[str, str], depth: int) -> Element:
        group = make(self.dice.choice(["sequence", "sequence", "choice"]))
        while names and (not len(group) or self.dice.random() < 0.7):
            if depth < 2 and self.dice.random() < 0.25:
                group.append(self.group(names, types, depth + 1))
            else:
                name = names.pop()
                group.append(self.particle(name, types[name]))
        if depth == 0 and self.dice.random() < 0.2:
            group.append(self.wildcard())
        # The library takes some sequences that repeated groups in each other do not allow.
        return self.bounded(group, ("",) if depth else ("", "", "", "?", "*", "0,2"))

    def wildcard(self) -> Element:
        process = self.dice.choice(["lax", "skip", "strict"])
        # In a repeated group the library takes a name for the wildcard that an element has, too.
        space = self.dice.choice(["##other", "urn:x", *(["##any"] if process == "skip" else [])])
        return make("any", namespace=space, processContents=process, minOccurs="0")

    def changed(self, schema: Element) -> Element:
        """Return a schema that differs here and there."""
        copy = deepcopy(schema)
        changes = [self.change_type, self.change_simple, self.change_attributes, self.change_flag, self.change_group,
                   *[self.change_occurrence] * 2, *[self.change_particles] * 2]  # fmt: skip
        for _ in range(self.dice.randint(1, 2)):
            self.dice.choice(changes)(copy)
        _simplify(copy)
        return copy

    def change_type(self, schema: Element) -> None:
        name, type_name = self.dice.choice(NAMES), self.type_name()
        for node in schema.iter("element"):
            if node.get("name") == name:
                node.set("type", type_name)
                if type_name in COMPLEX:
                    node.set("minOccurs", "0")

    def change_simple(self, schema: Element) -> None:
        node = self.dice.choice(schema.findall("simpleType"))
        inner = node[0]
        if len(inner) > 1 and self.dice.random() < 0.3:
            inner.remove(self.dice.choice(inner[1:]))
        elif inner.get("base") is not None and self.dice.random() < 0.7:
            names, facets, texts = next(family for family in FAMILIES if inner.get("base", "")[3:] in family[0])
            inner.set("base", f"xs:{self.dice.choice(names)}")
            if self.dice.random() < 0.6:
                inner[:] = self.facet(self.dice.choice(facets), texts)
        else:
            node[0] = self.simple("")[0]

    def change_attributes(self, schema: Element) -> None:
        owners = [node for node in schema.iter() if node.tag in ("complexType", "extension")]
        owner = self.dice.choice([node for node in owners if node.find("simpleContent") is None])
        for node in [*owner.findall("attribute"), *owner.findall("anyAttribute")]:
            owner.remove(node)
            if self.dice.random() < 0.4:
                owner.append(node)
            elif self.dice.random() < 0.5:
                owner.append(self.attribute(node.get("name", "z")))
        owner[:] = sorted(owner, key=lambda node: node.tag == "anyAttribute")

    def change_flag(self, schema: Element) -> None:
        kinds = {"complexType": "mixed", "element": "nillable"}
        nodes = [node for node in schema.iter() if node.tag in kinds and node.get("name", "r") not in "rqhst"]
        nodes = [node for node in nodes if node.find("simpleContent") is None]
        if nodes:
            node = self.dice.choice(nodes)
            flag = kinds[node.tag]
            node.set(flag, "false" if node.get(flag) == "true" else "true")

    def change_occurrence(self, schema: Element) -> None:
        within_all = {id(part) for group in schema.iter("all") for part in group}
        whole = {id(group) for owner in schema.iter("complexType") for group in owner}
        nodes = [node for node in schema.iter() if "maxOccurs" in node.attrib]
        nodes = [node for node in nodes if node.tag == "element" or id(node) in whole]
        if nodes:
            node = self.dice.choice(nodes)
            # Of groups that may be empty the library wants all repetitions written.
            kinds: tuple[str, ...] = ("", "?", "*", "0,2") if id(node) in whole else ("", "?", "*", "+", "2,3", "0,2")
            if node.get("type") in COMPLEX:
                kinds = ("?", "*", "0,2")
            self.bounded(node, [kind for kind in kinds if kind in ("", "?")] if id(node) in within_all else kinds)

    def change_particles(self, schema: Element) -> None:
        """Add, remove or move what is in a group."""
        groups = [(owner, node) for owner in schema.findall("complexType") for node in _groups(owner)]
        if not groups:
            return
        owner, group = self.dice.choice(groups)
        chance = self.dice.random()
        unused = [name for name in NAMES if owner.find(f".//element[@name='{name}']") is None]
        if chance < 0.4 and unused:
            name = self.dice.choice(unused)
            like = schema.find(f".//element[@name='{name}']")
            type_name = self.type_name() if like is None else like.get("type", "")
            kinds = ("", "?") if group.tag == "all" else ("?", "?", "", "*")
            group.insert(self.dice.randint(0, len(group)), self.particle(name, type_name, kinds))
        elif chance < 0.7 and len(group) > 1:
            group.remove(self.dice.choice(list(group)))
        elif chance < 0.8 and group.tag != "all" and group.find("any") is None:
            group.append(self.wildcard())
        else:
            inner = list(group)
            self.dice.shuffle(inner)
            group[:] = inner

    def change_group(self, schema: Element) -> None:
        groups = [node for node in schema.iter() if node.tag in _GROUPS[:2]]
        if groups:
            node = self.dice.choice(groups)
            node.tag = "choice" if node.tag == "sequence" else "sequence"


def _simplify(schema: Element) -> None:
    """Remove bounds that the library does not count as the specification says."""
    groups = [group for group in schema.iter() if group.tag in _GROUPS]
    # In a choice within a group a part may occur too often, unless its least number is its greatest.
    for part in (part for group in groups for choice in group.iterfind("choice") for part in choice):
        if part.get("minOccurs", "1") != part.get("maxOccurs", "1"):
            part.set("maxOccurs", "unbounded")
    # In a repeated group it takes as many as there may be, and then finds too few for the next time.
    for part in (part for group in groups if group.get("maxOccurs") != "1" for part in group.iter("element")):
        if part.get("minOccurs") == "2" and part.get("maxOccurs") == "3":
            part.set("maxOccurs", "2")


def _groups(owner: Element) -> Iterator[Element]:
    return (node for node in owner.iter() if node.tag in _GROUPS)


class Writer:
    """Documents that are likely to be of a schema, which is the library's."""

    def __init__(self, dice: Random, schema: Any) -> None:
        self.dice = dice
        self.schema = schema
        self.fitting: dict[int, list[str]] = {}
        self.left = 0  # how many more elements may have what they need not have
        self.depth = 0
        self.most_levels = 0
        self.density = 0.5  # how often something is written that may be left out
        self.wanted: Collection[str] = ()

    def document(self, wanted: Collection[str] = ()) -> Element:
        """Return a document, likely to have elements and attributes of the names ``wanted``.

        Raises ``RecursionError`` if the document would have no end.
        """
        self.wanted = wanted
        roots = [root for root in self.schema.elements if root in wanted]
        self.left, self.depth, self.most_levels = 60, 0, self.dice.choice([1, 2, 60])
        self.density = self.dice.choice([0.2, 0.5, 0.8])
        return self.element(self.schema.elements[self.dice.choice([*ROOTS, *roots, *roots])])

    def element(self, declared: Any) -> Element:
        self.left -= 1
        if self.left < -200:
            raise RecursionError
        node = Element(declared.name)
        xsd = declared.type
        derived = self.derived(xsd)
        if derived and self.dice.random() < 0.2:
            xsd = self.dice.choice(derived)
            node.set(f"{XSI}type", xsd.name)
        if not xsd.is_simple():
            for name, attribute in xsd.attributes.items():
                if name and (attribute.use == "required" or self.chance(wanted=name in self.wanted)):
                    node.set(name, attribute.fixed or self.text(attribute.type))
            wildcard = xsd.attributes.get(None)
            if wildcard is not None and wildcard.process_contents == "strict" and self.dice.random() < 0.9:
                node.attrib.update({PREDEFINED[0]: "en"} if self.dice.random() < 0.3 else {})
            elif wildcard is not None and self.dice.random() < 0.5:
                node.set(self.dice.choice(["x", "y", "z"]), self.dice.choice(TEXTS))
        if declared.nillable and self.dice.random() < 0.3:
            node.set(f"{XSI}nil", "true")
            return node
        if not xsd.is_simple():
            if isinstance(xsd.content, XsdGroup):
                self.depth += 1
                node.extend(self.group(xsd.content))
                self.depth -= 1
                if xsd.content.mixed and self.dice.random() < 0.5:
                    node.text = "text"
                return node
            xsd = xsd.content
        node.text = self.text(xsd)
        return node

    def derived(self, xsd: Any) -> list[Any]:
        """Return the complex types that ``xsi:type`` may name instead of a type."""
        complex_types = [part for part in self.schema.types.values() if part.is_complex() and part is not xsd]
        return [part for part in complex_types if xsd.local_name != "anyType" and part.is_derived(xsd)]

    def chance(self, *, wanted: bool) -> bool:
        """Return True if something that may be left out is written."""
        return self.dice.random() < (0.8 if wanted else self.density)

    def text(self, xsd: Any) -> str:
        if id(xsd) not in self.fitting:
            candidates = TEXTS
            if xsd.is_list():
                candidates = [*TEXTS, *(" ".join([text] * count) for text in TEXTS for count in range(2, 7))]
            elif any("decimal" in str(part.root_type.name) for part in getattr(xsd.root_type, "member_types", [xsd])):
                candidates = [text for text in TEXTS if " " not in text.strip()]  # the library leaves the spaces out
            self.fitting[id(xsd)] = [candidate for candidate in candidates if xsd.text_is_valid(candidate)]
        return self.dice.choice(self.fitting[id(xsd)] or TEXTS)

    def group(self, group: Any) -> list[Element]:
        nodes: list[Element] = []
        for _ in range(self.times(group)):
            parts = list(group)
            if group.model == "choice":
                wanted = [part for part in parts if self.wanted and self.has_wanted(part)]
                parts = [self.dice.choice(wanted if wanted and self.dice.random() < 0.5 else parts)] if parts else []
            elif group.model == "all":
                self.dice.shuffle(parts)
            for part in parts:
                if isinstance(part, XsdGroup):
                    nodes += self.group(part)
                elif isinstance(part, XsdAnyElement):
                    nodes += [self.any(part) for _ in range(self.times(part))]
                elif isinstance(part, XsdElement):
                    several = [part, *part.iter_substitutes()]
                    several += [other for other in several if other.name in self.wanted] * 3
                    nodes += [self.element(self.dice.choice(several)) for _ in range(self.times(part))]
        return nodes

    def any(self, wildcard: Any) -> Element:
        """Return an element that a wildcard takes, if there is one."""
        names = [*self.schema.elements]
        if wildcard.process_contents != "strict":
            names += ["{urn:x}q", "{urn:x}a", *NAMES, *(name for name in self.wanted if name in NAMES)]
        name = self.dice.choice([name for name in names if wildcard.is_matching(name)] or NAMES)
        if wildcard.process_contents != "skip" and name in self.schema.elements:
            return self.element(self.schema.elements[name])
        node = Element(name)
        node.text = self.dice.choice(TEXTS)
        if self.dice.random() < 0.3:
            node.attrib.update(dict.fromkeys(self.dice.sample(PREDEFINED, 3), "1 2"))
        if self.dice.random() < 0.2:
            child = SubElement(node, self.dice.choice(ROOTS))
            child.text = self.dice.choice(TEXTS)
        return node

    def has_wanted(self, particle: Any) -> bool:
        if isinstance(particle, XsdGroup):
            return any(map(self.has_wanted, particle))
        return isinstance(particle, XsdElement) and (
            particle.name in self.wanted or any(part.name in self.wanted for part in particle.iter_substitutes())
        )

    def times(self, particle: Any) -> int:
        least = int(particle.min_occurs)
        if self.left < 0 or self.depth > self.most_levels:
            return least
        if least == 0 and not self.chance(wanted=self.has_wanted(particle)):
            return 0
        most = least + self.dice.randint(1, 4)
        most = most if particle.max_occurs is None else min(most, int(particle.max_occurs))
        return self.dice.randint(min(max(least, 1), most), most)
