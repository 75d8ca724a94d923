"""The page that compares two Versions: whether each reads the other's data, their attributes, and their texts.

The amount that is compared and shown is limited. The page says what was left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, islice, zip_longest
from typing import Final
from urllib.parse import urlencode

from signalbook.api.ui.attributes import AttributeValues, Shown, moment
from signalbook.api.ui.documents import detect_language, format_json
from signalbook.api.ui.pages import Crumb, Page, UIRequest, build_crumbs
from signalbook.engine.checks import compare_texts
from signalbook.engine.read.pages import PageRequest
from signalbook.engine.read.schemas import SchemaReferences, load_schema
from signalbook.engine.read.view import View, ViewOptions
from signalbook.errors import RegistryError
from signalbook.formats import SchemaError
from signalbook.formats.base import extract_text
from signalbook.formats.compatibility import Difference, Direction, SchemaText, convert_difference
from signalbook.values import JSON, JSONObject, dump_json
from signalbook.work import OutOfTime, TooComplex, Work
from signalbook.xid import Kind, Xid, XidError

PATH: Final = "/-/compare"
_MAX_CHOICES: Final = 200
_MOST_BYTES: Final = 1024 * 1024
"""The size of a document whose structure is compared for a page. ``/check`` accepts larger documents."""
_WORK_SECONDS: Final = 3.0
_MAX_DIFFERENCES: Final = 50
_MAX_REASON_CHARS: Final = 1000
_MAX_SIDE_CHARS: Final = 300
"""The maximum characters shown for one side of a difference."""
_DIFFERING: Final = 200
_MAX_COMPARED_CHARS: Final = 300_000
_MAX_LINES: Final = 1500
"""The number of lines of a text that are compared. The time grows with the square of this number."""
_CONTEXT: Final = 3
_MAX_ROWS: Final = 600
_LINE: Final = 400
_MAX_MARKUP_CHARS: Final = 60_000
_SIDES: Final = "sides"
_OWN_ATTRIBUTES: Final = frozenset(
    {*("self", "shortself", "xid", "versionid", "epoch", "isdefault", "createdat", "modifiedat"), "ancestorid"}
)
"""Attributes that differ between any two Versions, so they are not compared."""
_QUESTIONS: Final[Mapping[Direction, str]] = {
    "backward": "Can readers of “{new}” read what was written with “{old}”?",
    "forward": "Can readers of “{old}” read what is written with “{new}”?",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChoice:
    """A form to choose two Versions of the Resource ``of``: from a list of ``ids``, or by typing ids if there are
    too many."""

    of: str
    ids: tuple[str, ...]
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSide:
    """One of the two compared versions."""

    id: str
    href: str
    created: Shown
    format: str
    marks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceLine:
    """A difference that prevents a reader with one Version from reading data of the other; ``old`` and ``new`` are both
    sides."""

    path: str
    rule: str
    message: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict on reading data in one ``direction``: yes, no, or unknown, with reasons. ``more`` counts reasons not
    shown."""

    direction: str
    question: str
    answer: str
    why: str
    differences: tuple[DifferenceLine, ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeDifference:
    """An attribute, or a part of one, that differs between the two Versions; a side is None if it lacks the
    attribute."""

    path: str
    old: Shown | None
    new: Shown | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """A line of a text comparison: only in the older text (``-``), only in the newer text (``+``), in both (a
    space), or a gap (``@``)."""

    sign: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffPair:
    """Two lines side by side, None if a side has no line. ``kind`` is kept, changed, or gap."""

    kind: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDiff:
    """The difference of two texts. ``note`` says what was not compared, or why nothing is shown."""

    lines: tuple[DiffLine, ...]
    note: str = ""

    def pairs(self) -> tuple[DiffPair, ...]:
        """Return the lines side by side: removed lines next to the lines that replaced them."""
        return tuple(_build_pairs(self.lines))


def _build_pairs(lines: Iterable[DiffLine]) -> Iterator[DiffPair]:
    for changed, run in groupby(lines, key=lambda line: line.sign in "-+"):
        if not changed:
            for line in run:
                kind = "gap" if line.sign == "@" else "kept"
                yield DiffPair(kind=kind, old=line.text, new=line.text)
            continue
        sides: dict[str, list[str]] = {"-": [], "+": []}
        for line in run:
            sides[line.sign].append(line.text)
        for old, new in zip_longest(sides["-"], sides["+"]):
            yield DiffPair(kind="changed", old=old, new=new)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonContent:
    """The content of the page. ``pairs`` is the text side by side, if requested; ``other_view`` links to the other
    view."""

    resource: str
    old: VersionSide
    new: VersionSide
    choice: VersionChoice
    verdicts: tuple[Verdict, ...]
    attributes: tuple[AttributeDifference, ...]
    cut: bool
    text: TextDiff | None
    pairs: tuple[DiffPair, ...]
    other_view: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    xid: Xid
    attributes: JSONObject
    content: bytes | None
    format: str
    contenttype: str


def page(view: View, request: UIRequest) -> Page:
    """Return the page that compares two Versions of a Resource. Raises ``bad_request`` and ``not_found``."""
    of = _read_resource(view, request)
    ids = _read_ids(view, request, of)
    old, new = (_load_side(view, request, of / "versions" / versionid) for versionid in ids)
    differing = list(
        islice(find_differences(_select_comparable(view, old), _select_comparable(view, new)), _DIFFERING + 1)
    )
    values = AttributeValues(model=view.model, root=request.base_url)
    text, beside = _compare_texts(old, new), request.query.get("text") == _SIDES
    content = ComparisonContent(
        resource=str(of),
        old=_render_side(old),
        new=_render_side(new),
        choice=build_choice(view, of, *ids),
        verdicts=tuple(_list_verdicts(view, request, old, new)),
        attributes=tuple(_render_attribute(values, *difference) for difference in differing[:_DIFFERING]),
        cut=len(differing) > _DIFFERING,
        text=text,
        pairs=text.pairs() if text is not None and beside else (),
        other_view=link(of, *ids) + ("" if beside else f"&text={_SIDES}"),
    )
    way = build_crumbs(of, "versions", "compare")
    way = (*way[:-2], Crumb(text="versions", href=f"{of}/versions"), way[-1])
    return Page(
        template="comparison.html", title=f"{of.id}: {old.xid.id} and {new.xid.id}", content=content, crumbs=way
    )


def build_choice(view: View, of: Xid, old: str = "", new: str = "") -> VersionChoice:
    """Return the form for Versions of a Resource, the newest first."""
    listed = view.list_members(of / "versions", ViewOptions(), PageRequest(limit=_MAX_CHOICES + 1))
    rows = sorted((node.row for node in listed.members), key=lambda row: (row.createdat, row.xid.id), reverse=True)
    ids = tuple(row.xid.id for row in rows) if len(rows) <= _MAX_CHOICES else ()
    return VersionChoice(of=str(of), ids=ids, old=old or (ids[1] if len(ids) > 1 else ""), new=new or "".join(ids[:1]))


def link(of: Xid, old: str, new: str) -> str:
    """Return the path below ``/ui`` of a comparison of two Versions."""
    return f"{PATH}?{urlencode({'of': str(of), 'old': old, 'new': new})}"


def _read_resource(view: View, request: UIRequest) -> Xid:
    text = request.query.get("of", "")
    try:
        xid = Xid.parse(text)
    except XidError as error:
        raise _build_error(request, f'"of" takes the xid of a Resource, not "{text[:100]}": {error}') from None
    if xid.kind is not Kind.RESOURCE or view.model.resource_type(xid) is None:
        raise _build_error(request, f'"of" takes the xid of a Resource, not "{text[:100]}"')
    return xid


def _read_ids(view: View, request: UIRequest, of: Xid) -> tuple[str, str]:
    """Return the ids of the two requested Versions; by default the default Version and its ancestor."""
    old, new = request.query.get("old", ""), request.query.get("new", "")
    new = new or str(view.render_entity(of, ViewOptions()).get("versionid", ""))
    try:
        versions = of / "versions"
        old = old or str(view.render_entity(Xid.parse(f"{versions}/{new}"), ViewOptions()).get("ancestorid", ""))
        Xid.parse(f"{versions}/{old}")
    except XidError as error:
        raise _build_error(request, f'"old" and "new" take ids of Versions: {error}') from None
    return old, new


def _build_error(request: UIRequest, detail: str) -> RegistryError:
    return RegistryError("bad_request", subject=request.subject, error_detail=detail)


def _load_side(view: View, request: UIRequest, xid: Xid) -> _Side:
    """Return a Version with its schema: its document, or the schema in a message definition."""
    attributes = view.render_entity(xid, ViewOptions(base_url=request.base_url))
    schema = load_schema(view, xid)
    contenttype = str(attributes.get("contenttype", ""))
    return _Side(xid=xid, attributes=attributes, content=schema.content, format=schema.format, contenttype=contenttype)


def _render_side(side: _Side) -> VersionSide:
    marks = ("default",) * bool(side.attributes.get("isdefault")) + ("deprecated",) * ("deprecated" in side.attributes)
    created = moment(str(side.attributes.get("createdat", "")))
    return VersionSide(id=side.xid.id, href=str(side.xid), created=created, format=side.format[:_LINE], marks=marks)


def _list_verdicts(view: View, request: UIRequest, old: _Side, new: _Side) -> Iterator[Verdict]:
    """Yield the verdicts in both directions, by the comparison that writes use."""
    obstacle = _find_obstacle(old) or _find_obstacle(new)
    texts = [_load_schema_text(view, request, side) for side in (new, old)] if not obstacle else []
    for direction, words in _QUESTIONS.items():
        question = words.format(old=old.xid.id, new=new.xid.id)
        if obstacle:
            yield Verdict(direction=direction, question=question, answer="not known", why=obstacle)
            continue
        try:
            limits = Work(steps=request.settings.max_work, seconds=_WORK_SECONDS)
            new_text, old_text = texts
            pairs = compare_texts(direction, new_text, old_text, limits)
        except (SchemaError, LookupError, TooComplex, OutOfTime) as error:
            yield Verdict(
                direction=direction, question=question, answer="not known", why=str(error)[:_MAX_REASON_CHARS]
            )
            continue
        yield _build_verdict(direction, question, [difference for _, difference in pairs], old)


def _find_obstacle(side: _Side) -> str:
    """Return why a Version cannot be compared, or an empty text."""
    if side.content is None:
        return f"Version “{side.xid.id}” has no schema here."
    if not side.format:
        return f"Version “{side.xid.id}” does not say which format its schema has."
    if len(side.content) > _MOST_BYTES:
        return (
            f"The schema of Version “{side.xid.id}” has {len(side.content)} bytes; here up to {_MOST_BYTES} are "
            "compared. /check compares larger ones."
        )
    return ""


def _build_verdict(direction: Direction, question: str, differences: list[Difference], old: _Side) -> Verdict:
    undecided = [difference.message for difference in differences if difference.rule == "undecided"]
    answer = "not known" if undecided and len(undecided) == len(differences) else "no" if differences else "yes"
    lines = (
        convert_difference(direction, difference, document="", against=f"“{old.xid.id}”") for difference in differences
    )
    return Verdict(
        direction=direction,
        question=question,
        answer=answer,
        why="" if differences else "Nothing is in the way.",
        differences=tuple(
            DifferenceLine(
                path=difference.path.removeprefix("#")[:_MAX_SIDE_CHARS],
                rule=difference.rule,
                message=difference.message,
                old=_format_value(difference.old),
                new=_format_value(difference.new),
            )
            for difference in islice(lines, _MAX_DIFFERENCES)
        ),
        more=max(0, len(differences) - _MAX_DIFFERENCES),
    )


def _format_value(value: JSON) -> str:
    text = "" if value is None else value if isinstance(value, str) else dump_json(value).decode()
    return text if len(text) <= _MAX_SIDE_CHARS else f"{text[:_MAX_SIDE_CHARS]}…"


def _load_schema_text(view: View, request: UIRequest, side: _Side) -> SchemaText:
    references = SchemaReferences(view, request.base_url)
    content = extract_text(side.content or b"", side.format)
    return SchemaText(document=content, format=side.format, resolve=references.make_resolver(side.xid))


def _select_comparable(view: View, side: _Side) -> JSONObject:
    """Return the attributes of a Version that are worth comparing, without those that always differ."""
    kind = view.model.groups[side.xid.group_type].resources[side.xid.resource_type]
    derived = {f"{kind.singular}{suffix}" for suffix in ("id", "base64")} | (
        {kind.singular} if kind.hasdocument else set()
    )
    return {name: value for name, value in side.attributes.items() if name not in _OWN_ATTRIBUTES | derived}


def find_differences(old: JSONObject, new: JSONObject, *above: str) -> Iterator[tuple[str, JSON, JSON]]:
    """Yield (path, old value, new value) for each difference of two objects. ``above`` are the names of the parents."""
    for name in dict.fromkeys((*old, *new)):
        mine, other = old.get(name), new.get(name)
        if mine == other and (name in old) == (name in new):
            continue
        if isinstance(mine, dict) and isinstance(other, dict) and len(above) < _CONTEXT:
            yield from find_differences(mine, other, *above, name)
        else:
            yield ".".join((*above, name))[:_MAX_SIDE_CHARS], mine, other


def _render_attribute(values: AttributeValues, path: str, old: JSON, new: JSON) -> AttributeDifference:
    mine, other = (None if value is None else values.render(value) for value in (old, new))
    return AttributeDifference(path=path, old=mine, new=other)


def _compare_texts(old: _Side, new: _Side) -> TextDiff | None:
    """Return the difference of the documents as text, or None if one Version has no document."""
    if old.content is None or new.content is None:
        return None
    if old.content == new.content:
        return TextDiff(lines=(), note="Both have the same text.")
    try:
        texts = [_decode_readable(side, side.content or b"") for side in (old, new)]
    except UnicodeDecodeError:
        return TextDiff(lines=(), note="They are no text.")
    return build_text_diff(*texts)


def _decode_readable(side: _Side, content: bytes) -> str:
    text = content.decode("utf-8")
    language = detect_language(content, side.contenttype, side.format)
    return format_json(text) if language == "json" and len(content) <= _MOST_BYTES else text


def build_text_diff(old: str, new: str) -> TextDiff:
    """Return the removed and added lines, with some unchanged lines around them. Only the beginnings of long texts are
    compared."""
    mine, other = _split_lines(old), _split_lines(new)
    cut = (
        len(old) > _MAX_COMPARED_CHARS
        or len(new) > _MAX_COMPARED_CHARS
        or len(mine) > _MAX_LINES
        or len(other) > _MAX_LINES
    )
    mine, other = mine[:_MAX_LINES], other[:_MAX_LINES]
    lines: list[DiffLine] = []
    room = _MAX_MARKUP_CHARS
    for line in _list_diff_lines(mine, other):
        if len(lines) == _MAX_ROWS or room <= 0:
            cut = True
            break
        lines.append(line)
        room -= len(line.text) + 40
    notes = [f"Only the first {_MAX_LINES} lines of each were compared, and {_MAX_ROWS} lines are shown."] * cut
    notes += ["The texts differ, but not in what was compared."] * (cut and not lines)
    notes += ["They differ in layout only."] * (not cut and not lines)
    return TextDiff(lines=tuple(lines), note=" ".join(notes))


def _split_lines(text: str) -> list[str]:
    return text[:_MAX_COMPARED_CHARS].split("\n")


def _list_diff_lines(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    # Skip the equal lines at both ends, because most changes are small.
    start = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    most = min(len(old), len(new)) - start
    pairs = zip(reversed(old), reversed(new), strict=False)
    end = next((at for at, (a, b) in enumerate(pairs) if at == most or a != b), most)
    start, end = max(0, start - _CONTEXT), max(0, end - _CONTEXT)
    mine, other = old[start : len(old) - end], new[start : len(new) - end]
    matcher = SequenceMatcher(None, mine, other)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        yield DiffLine(sign="@", text=f"from line {start + group[0][1] + 1}, now line {start + group[0][3] + 1}")
        for tag, a, b, c, d in group:
            if tag == "equal":
                yield from _build_diff_lines(" ", mine[a:b])
            else:
                yield from _build_diff_lines("-", mine[a:b])
                yield from _build_diff_lines("+", other[c:d])


def _build_diff_lines(sign: str, lines: list[str]) -> Iterator[DiffLine]:
    return (DiffLine(sign=sign, text=line if len(line) <= _LINE else f"{line[:_LINE]}…") for line in lines)
