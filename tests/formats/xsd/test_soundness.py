"""No two XML Schemas are called compatible that are not (G-30): random pairs, judged by the library."""

from __future__ import annotations

from collections import Counter
from io import BytesIO
from random import Random
from typing import Any
from xml.etree.ElementTree import Element, tostring

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xmlschema.validators import XsdAnyElement, XsdElement, XsdGroup

from signalbook.formats import SchemaError
from signalbook.formats.compatibility import SchemaText
from signalbook.formats.xsd import FORMAT, documents

XS = "http://www.w3.org/2001/XMLSchema"
XSI = "{http://www.w3.org/2001/XMLSchema-instance}"
# Attributes that the library declares in every schema.
PREDEFINED = [f"{{http://www.w3.org/XML/1998/namespace}}{name}" for name in ("lang", "space", "id", "base")] + [
    f"{{http://www.w3.org/2007/XMLSchema-versioning}}{name}Version" for name in ("min", "max")
]
NAMES = ["a", "b", "c", "d"]
TYPES = ["C0", "C1"]
BUILTIN = [
    "string", "token", "NCName", "NMTOKEN", "int", "short", "byte", "unsignedByte", "integer", "decimal", "double",
    "float", "boolean", "date", "NMTOKENS", "anyURI", "language", "positiveInteger", "anySimpleType",
]  # fmt: skip
FACETS = [
    '<xs:maxLength value="{}"/>', '<xs:minLength value="{}"/>', '<xs:length value="{}"/>',
    '<xs:pattern value="[a-z]+"/>', '<xs:pattern value="\\d+"/>', '<xs:enumeration value="ab"/>',
    '<xs:maxInclusive value="{}"/>', '<xs:minExclusive value="{}"/>', '<xs:totalDigits value="{}"/>',
    '<xs:fractionDigits value="{}"/>', '<xs:enumeration value="1"/><xs:enumeration value="12"/>',
]  # fmt: skip
TEXTS = [
    "", "a", "ab", "abc", " a ", "a b", "1", "01", "12", "1.0", "1.50", "-1", "0", "127", "200", "-129", "40000", "1e3",
    "INF", "true", "2020-01-01", "a:b", "x y z", "99999999999", "3", "4", "\t",
]  # fmt: skip


class Maker:
    """Schemas, changed schemas and documents by chance. A schema is a dictionary of the texts of its parts."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice

    def schema(self) -> dict[str, str]:
        parts = {f"type {name}": self.complex(name) for name in TYPES}
        parts |= {f"simple {name}": self.simple(name) for name in ("S0", "S1")}
        parts |= {f"of {name}": self.type_of() for name in NAMES}
        parts["root"] = '<xs:element name="r" type="C0"/>'
        if self.dice.random() < 0.3:
            parts["head"] = '<xs:element name="h" type="xs:int"/>'
            for name in ("s", "t"):
                if self.dice.random() < 0.6:
                    kind = self.dice.choice(["int", "byte"])
                    parts[f"member {name}"] = f'<xs:element name="{name}" type="xs:{kind}" substitutionGroup="h"/>'
        return parts

    def type_of(self) -> str:
        return self.dice.choice([*TYPES, "S0", "S1", "xs:int", "xs:string", "xs:anyType"])

    def simple(self, name: str) -> str:
        chance = self.dice.random()
        if chance < 0.1:
            inner = f'<xs:list itemType="xs:{self.dice.choice(BUILTIN)}"/>'
        elif chance < 0.25:
            members = " ".join(f"xs:{one}" for one in self.dice.sample(BUILTIN, 2))
            inner = f'<xs:union memberTypes="{members}"/>'
        else:
            chosen = self.dice.sample(FACETS, self.dice.randint(0, 2))
            facets = "".join(facet.format(self.dice.choice([1, 2, 3])) for facet in chosen)
            inner = f'<xs:restriction base="xs:{self.dice.choice(BUILTIN)}">{facets}</xs:restriction>'
        return f'<xs:simpleType name="{name}">{inner}</xs:simpleType>'

    def complex(self, name: str) -> str:
        names = self.dice.sample(NAMES, 3)
        mixed = ' mixed="true"' if self.dice.random() < 0.15 else ""
        chance = self.dice.random()
        if chance < 0.2:
            inner = "".join(f"@{one}{self.occurs(('', '?'))}@" for one in names)
            content = f"<xs:all>{inner}</xs:all>"
        elif chance < 0.3:
            return self.valued(name)
        else:
            content = self.group(names, 0)
        attributes = self.attributes()
        return f'<xs:complexType name="{name}"{mixed}>{content}{attributes}</xs:complexType>'

    def valued(self, name: str) -> str:
        base = f'<xs:extension base="{self.dice.choice(["S0", "S1", "xs:int"])}">{self.attributes()}</xs:extension>'
        return f'<xs:complexType name="{name}"><xs:simpleContent>{base}</xs:simpleContent></xs:complexType>'

    def attributes(self) -> str:
        found = ""
        for name in ("x", "y"):
            if self.dice.random() < 0.5:
                use = self.dice.choice(["", 'use="required"', 'default="1"', 'fixed="1"'])
                found += (
                    f'<xs:attribute name="{name}" type="{self.dice.choice(["S0", "S1", "xs:int", "xs:short"])}" {use}/>'
                )
        if self.dice.random() < 0.15:
            found += f'<xs:anyAttribute processContents="{self.dice.choice(["lax", "skip", "strict"])}"/>'
        return found

    def occurs(self, kinds: tuple[str, ...] = ("", "", "?", "*", "+", "2,3", "0,2")) -> str:
        return self.dice.choice(kinds)

    def group(self, names: list[str], depth: int) -> str:
        kind = self.dice.choice(["sequence", "choice"])
        inner = ""
        while names and (not inner or self.dice.random() < 0.7):
            if depth < 2 and self.dice.random() < 0.25:
                inner += self.group(names, depth + 1)
            else:
                inner += f"@{names.pop()}{self.occurs()}@"
        if self.dice.random() < 0.12:
            space = self.dice.choice(["##other", "urn:x", "##any"])
            process = self.dice.choice(["lax", "skip", "strict"])
            inner += f'<xs:any namespace="{space}" processContents="{process}" minOccurs="0"/>'
        if self.dice.random() < 0.1:
            inner += "!"
        return f"<xs:{kind} {bounds(self.occurs(('', '', '', '?', '*', '0,2')))}>{inner}</xs:{kind}>"

    def changed(self, parts: dict[str, str]) -> dict[str, str]:
        """Another schema that differs here and there."""
        found = dict(parts)
        for _ in range(self.dice.randint(1, 2)):
            name = self.dice.choice(list(found))
            if name.startswith("type"):
                pieces = found[name].split("@")
                if len(pieces) > 2 and self.dice.random() < 0.8:
                    at = self.dice.randrange(1, len(pieces), 2)
                    piece = pieces[at]
                    added = self.dice.choice(NAMES) + "?"
                    pieces[at] = self.dice.choice([piece[:1] + self.occurs(), piece, f"{piece}@@{added}", ""])
                    found[name] = "@".join(pieces)
                else:
                    found[name] = self.complex(name.split()[1])
            elif name.startswith("simple"):
                found[name] = self.simple(name.split()[1])
            elif name.startswith("of"):
                found[name] = self.type_of()
            elif name.startswith("member"):
                del found[name]
        return found


def bounds(occurs: str) -> str:
    least, most = {"": ("1", "1"), "?": ("0", "1"), "*": ("0", "unbounded"), "+": ("1", "unbounded")}.get(
        occurs
    ) or occurs.split(",")
    return f'minOccurs="{least}" maxOccurs="{most}"'


def written(parts: dict[str, str]) -> SchemaText:
    """The document of a schema."""
    body = ""
    for name, part in parts.items():
        if not name.startswith("of"):
            pieces = part.replace("!", '<xs:element ref="h"/>' if "head" in parts else "").split("@")
            for at in range(1, len(pieces), 2):
                if pieces[at]:
                    one, occurs = pieces[at][0], pieces[at][1:]
                    pieces[at] = f'<xs:element name="{one}" type="{parts[f"of {one}"]}" {bounds(occurs)}/>'
            body += "".join(pieces)
    return SchemaText(document=f'<xs:schema xmlns:xs="{XS}">{body}</xs:schema>'.encode(), format="XSD/1.1")


class Writer:
    """Documents that are likely to be of a schema."""

    def __init__(self, dice: Random, schema: Any) -> None:
        self.dice = dice
        self.schema = schema
        self.left = 60

    def element(self, declared: Any) -> Element:
        self.left -= 1
        if self.left < -200:
            raise RecursionError
        found = Element(declared.name)
        xsd = declared.type
        if not xsd.is_simple():
            for name, attribute in xsd.attributes.items():
                if name and (attribute.use == "required" or self.dice.random() < 0.5):
                    found.set(name, attribute.fixed or self.text(attribute.type))
            if None in xsd.attributes and self.dice.random() < 0.5:
                found.set(self.dice.choice(["x", "y", "z"]), self.dice.choice(TEXTS))
            if isinstance(xsd.content, XsdGroup):
                found.extend(self.group(xsd.content))
                if xsd.content.mixed and self.dice.random() < 0.5:
                    found.text = "text"
                return found
            xsd = xsd.content
        found.text = self.text(xsd)
        return found

    def text(self, xsd: Any) -> str:
        fitting = [one for one in TEXTS if xsd.text_is_valid(one)]
        return self.dice.choice(fitting or TEXTS)

    def group(self, group: Any) -> list[Element]:
        found: list[Element] = []
        for _ in range(self.times(group)):
            parts = list(group)
            if group.model == "choice":
                parts = [self.dice.choice(parts)] if parts else []
            elif group.model == "all":
                self.dice.shuffle(parts)
            for part in parts:
                if isinstance(part, XsdGroup):
                    found += self.group(part)
                elif isinstance(part, XsdAnyElement):
                    names = ["{urn:x}q", "{urn:x}a", *NAMES, "h", "s", "t"]
                    for _ in range(self.times(part)):
                        child = Element(self.dice.choice(names))
                        child.text = self.dice.choice(TEXTS)
                        if self.dice.random() < 0.3:
                            child.attrib.update(dict.fromkeys(self.dice.sample(PREDEFINED, 3), "1 2"))
                        found.append(child)
                elif isinstance(part, XsdElement):
                    several = [part, *part.iter_substitutes()]
                    found += [self.element(self.dice.choice(several)) for _ in range(self.times(part))]
        return found

    def times(self, particle: Any) -> int:
        least = int(particle.min_occurs)
        if self.left < 0:
            return least
        most = least + 2 if particle.max_occurs is None else int(particle.max_occurs)
        return self.dice.randint(least, min(most, least + 2))


def outcome(dice: Random, reader: dict[str, str], writer: dict[str, str], documents_made: int = 25) -> str:
    new, old = written(reader), written(writer)
    try:
        found = FORMAT.differences(new, old)
        read, write = (documents.build("1.1", documents.gather(one.document, None)).schema for one in (new, old))
    except SchemaError:
        return "no schema"
    spaced = SchemaText(document=old.document + b"\n", format=old.format)
    assert FORMAT.differences(spaced, old) == []
    if found:
        return "different"
    for _ in range(documents_made):
        try:
            document = tostring(Writer(dice, write).element(write.elements["r"]))
        except RecursionError:
            continue  # there is no end to what is required
        if write.is_valid(BytesIO(document)) and not read.is_valid(BytesIO(document)):
            return f"unsound: {document!r}: {next(read.iter_errors(BytesIO(document)))}"
    return "compatible"


@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=60)
@given(st.randoms(use_true_random=False))
def test_a_changed_schema_is_compatible_only_if_no_document_says_otherwise(dice: Random) -> None:
    maker = Maker(dice)
    schema = maker.schema()
    other = maker.changed(schema)
    for reader, writer in ((other, schema), (schema, other)):
        assert not outcome(dice, reader, writer).startswith("unsound")


def test_enough_pairs_are_compatible() -> None:
    """The test above says something."""
    found: Counter[str] = Counter()
    for seed in range(60):
        dice = Random(seed)
        maker = Maker(dice)
        schema = maker.schema()
        found[outcome(dice, maker.changed(schema), schema, 5)] += 1
    assert min(found["compatible"], found["different"]) > 5, found
