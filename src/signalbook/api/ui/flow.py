"""The flow of events as a graph: from producers through endpoints and topics to messages, pipelines and tables.

Producers are the CloudEvents sources of messages, and tables are those in which the newest batches of pipelines landed
messages. If there are many messages, the graph shows their groups instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from signalbook.api.pipelines import can_read_reports
from signalbook.api.ui.attributes import AttributeValues
from signalbook.api.ui.charts import format_number
from signalbook.api.ui.graphs import GraphNode, LayeredGraph, add_passages, build_layered_graph, cut_middle
from signalbook.api.ui.listing import ENDPOINTS
from signalbook.api.ui.names import parse_xids
from signalbook.api.ui.pages import UIRequest, escape_hidden
from signalbook.api.ui.pipelinestatus import PIPELINES, build_line
from signalbook.engine.read.impact import load_rows_with_defaults
from signalbook.engine.read.view import View
from signalbook.pipeline_reports import list_visible_pipelines
from signalbook.storage.base import Row
from signalbook.values import JSON, JSONObject, format_count
from signalbook.xid import ROOT, Kind, Xid

MESSAGE_GROUPS: Final = "messagegroups"
_MESSAGES: Final = "messages"
_MAX_ENDPOINTS: Final = 12
_MAX_GROUPS: Final = 12
_MAX_MESSAGES: Final = 12
"""The number of messages up to which each has a box of its own."""
_MAX_PIPELINES: Final = 12
_MAX_REPORT_CHARS: Final = 2 * 1024 * 1024
"""The maximum characters of reports that are read. At least one report is read."""
_MAX_ARROWS: Final = 120
_MAX_LINKS: Final = 200
"""The number of references that are followed from or to an entity, and of groups that are looked for."""
_MAX_TEXT_CHARS: Final = 80
_LABEL_CHARS: Final = 18
_KIND_CHARS: Final = 24
_BOX_WIDTH: Final = 152
_GAP: Final = 36
_TOPICS: Final = ("topic", "topic_name", "subject", "node")
"""The options of protocols that name a topic: of Kafka, MQTT, NATS and AMQP."""
_PRODUCER, _ENDPOINT, _TOPIC, _MESSAGE, _PIPELINE, _TABLE = range(6)
"""The columns of the graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLine:
    """A box of the graph, and the boxes to which its arrows lead as (text, href)."""

    kind: str
    text: str
    href: str
    targets: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The graph, and the same as a table. ``notes`` say what is left out."""

    graph: LayeredGraph
    lines: tuple[FlowLine, ...]
    notes: tuple[str, ...]


class _Counts(msgspec.Struct):
    landed: int = 0
    rejected: int = 0


class _Report(msgspec.Struct):
    """The part of a report that has counts by message."""

    by_message: dict[str, _Counts] = {}


def has_flow(xid: Xid) -> bool:
    """Return True if the page of an entity has a graph of the flow: message groups and endpoints do."""
    return xid.kind is Kind.GROUP and xid.group_type in (MESSAGE_GROUPS, ENDPOINTS)


def build_flow(view: View, request: UIRequest, at: datetime, of: Xid = ROOT) -> Flow | None:
    """Return the flow of events through the message group or endpoint ``of``, or through the whole registry.

    Return None if nothing is connected. ``at`` is the current time.
    """
    return _Builder(view, request, at).build(of)


@dataclass(kw_only=True)
class _Boxes:
    """The boxes and arrows found so far."""

    nodes: dict[str, GraphNode] = field(default_factory=dict)
    links: dict[tuple[str, str, str], None] = field(default_factory=dict)

    def add(self, column: int, kind: str, name: str, text: str, href: str = "", mark: str = "") -> str:
        """Add a box with a ``text``, unless the column has a box with this ``name``, and return its id."""
        node_id = f"{column} {name}"
        self.nodes.setdefault(
            node_id,
            GraphNode(
                id=node_id,
                column=column,
                kind=cut_middle(str(escape_hidden(kind)), _KIND_CHARS),
                label=cut_middle(str(escape_hidden(text)), _LABEL_CHARS),
                title=cut_middle(text, _MAX_TEXT_CHARS),
                href=href,
                mark=mark,
            ),
        )
        return node_id

    def link(self, source: str, target: str, text: str = "") -> None:
        """Add an arrow, if there is room for it. Several messages may have the same arrow."""
        if len(self.links) < _MAX_ARROWS:
            self.links[source, target, text] = None


class _Builder:
    def __init__(self, view: View, request: UIRequest, at: datetime) -> None:
        self._view = view
        self._request = request
        self._at = at
        self._values = AttributeValues(model=view.model, root=request.base_url)
        self._boxes = _Boxes()
        self._notes: list[str] = []
        # Boxes of messages by the xid of the message, or of its Group if Groups are shown.
        self._message_boxes: dict[Xid, str] = {}

    def build(self, of: Xid) -> Flow | None:
        """Return the flow through ``of``."""
        endpoints = self._load_endpoints(of)
        landed = list(self._read_landed())
        groups = self._load_groups(of, endpoints, [xid for _, counts in landed for xid in counts])
        self._add_messages(endpoints, groups)
        for pipeline, counts in landed:
            self._add_pipeline(pipeline, counts)
        boxes = self._boxes
        if not boxes.links:
            return None
        if len(boxes.links) == _MAX_ARROWS:
            self._notes.append(f"There are {_MAX_ARROWS} arrows or more: the others are not shown.")
        connected = {end for source, target, _ in boxes.links for end in (source, target)}
        nodes = [node for node in boxes.nodes.values() if node.id in connected]
        return Flow(
            graph=build_layered_graph(*add_passages(nodes, boxes.links), box_width=_BOX_WIDTH, gap=_GAP),
            lines=tuple(self._list_lines(nodes)),
            notes=tuple(self._notes),
        )

    def _list_lines(self, nodes: Sequence[GraphNode]) -> Iterator[FlowLine]:
        targets: dict[str, dict[str, None]] = {}
        for source, target, _ in self._boxes.links:
            targets.setdefault(source, {})[target] = None
        for node in sorted(nodes, key=lambda node: node.column):
            reached = [self._boxes.nodes[target] for target in targets.get(node.id, ())]
            yield FlowLine(
                kind=node.kind,
                text=node.title,
                href=node.href,
                targets=tuple((f"{target.kind} {target.title}", target.href) for target in reached),
            )

    def _load_endpoints(self, of: Xid) -> list[Row]:
        """Return the endpoint ``of``, the endpoints of the message group ``of``, or the first endpoints of all."""
        reader = self._view.reader
        if of.kind is Kind.GROUP and of.group_type == ENDPOINTS:
            rows = list(reader.get_many([of]).values())
        elif of.kind is Kind.GROUP:
            users = [dependent.xid for dependent in self._view.find_direct_dependents(of, _MAX_LINKS)]
            rows = list(reader.get_many([xid for xid in users if xid.group_type == ENDPOINTS]).values())
        else:
            root = reader.get(ROOT)
            has_endpoints = root is not None and ENDPOINTS in self._view.model.groups
            rows = (
                list(reader.children([root.key], ENDPOINTS, limit=_MAX_ENDPOINTS + 1)) if root and has_endpoints else []
            )
        if len(rows) > _MAX_ENDPOINTS:
            self._notes.append(f"More than {_MAX_ENDPOINTS} endpoints: the others are not shown.")
        return rows[:_MAX_ENDPOINTS]

    def _list_references(self, endpoint: Row) -> list[Xid]:
        """Return the message groups of an endpoint, whether they exist or not."""
        references = endpoint.attributes.get("messagegroups")
        links = [self._values.link(str(item)) for item in references] if isinstance(references, list) else []
        return [Xid.parse(link) for link in links[:_MAX_LINKS] if link is not None]

    def _load_groups(self, of: Xid, endpoints: Sequence[Row], landed: Iterable[Xid]) -> dict[Xid, Row]:
        """Return the Groups whose messages are shown: message groups, and endpoints with messages of their own."""
        if of.kind is Kind.GROUP and of.group_type == MESSAGE_GROUPS:
            return self._view.reader.get_many([of])
        xids = [xid for row in endpoints for xid in (*self._list_references(row), row.xid)]
        if not of.parts:
            xids += [xid.owner for xid in landed]
        groups = self._view.reader.get_many(list(dict.fromkeys(xids))[:_MAX_LINKS])
        if len(groups) > _MAX_GROUPS + len(endpoints):
            self._notes.append(f"More than {_MAX_GROUPS} message groups: the others are not shown.")
        return dict(islice(groups.items(), _MAX_GROUPS + len(endpoints)))

    def _add_messages(self, endpoints: Sequence[Row], groups: Mapping[Xid, Row]) -> None:
        """Add endpoints, topics and messages, or groups of messages if there are many messages."""
        users: dict[Xid, list[Row]] = {}
        for row in endpoints:
            for xid in dict.fromkeys((*self._list_references(row), row.xid)):
                users.setdefault(xid, []).append(row)
        keys = [row.key for row in groups.values()]
        counts = {
            key: number for (key, plural), number in self._view.reader.counts(keys).items() if plural == _MESSAGES
        }
        if sum(counts.values()) > _MAX_MESSAGES:
            for xid, row in groups.items():
                if number := counts.get(row.key, 0):
                    text = format_count(number, "message")
                    name = str(row.attributes.get("name") or xid.id)
                    box = self._boxes.add(_MESSAGE, text, str(xid), name, str(xid))
                    self._message_boxes[xid] = box
                    self._connect(users.get(xid, ()), {}, box)
            return
        messages = list(self._view.reader.children(keys, _MESSAGES, limit=_MAX_MESSAGES)) if keys else []
        xids = [row.xid for row in messages]
        rows = load_rows_with_defaults(self._view.reader, xids, xids)
        for row in messages:
            default = rows.get(row.default_version) if row.defaultversionid else None
            attributes = row.attributes if default is None else default.attributes
            name = str(attributes.get("name") or row.xid.id)
            box = self._boxes.add(_MESSAGE, "message", str(row.xid), name, str(row.xid))
            self._message_boxes[row.xid] = box
            self._connect(users.get(row.xid.owner, ()), attributes, box)

    def _connect(self, endpoints: Sequence[Row], message: JSONObject, box: str) -> None:
        """Add the arrows from the producer of a message through its endpoints and topics to its box."""
        own_topic, source = _find_topic(message), _find_source(message)
        ways = []
        for row in endpoints:
            kind = f"{row.attributes.get('protocol') or ''} endpoint".strip()
            name = str(row.attributes.get("name") or row.xid.id)
            ways.append(
                (self._boxes.add(_ENDPOINT, kind, str(row.xid), name, str(row.xid)), _find_topic(row.attributes))
            )
        first_boxes = []
        for endpoint, endpoint_topic in ways:
            first_boxes.append(endpoint)
            self._pass_topic(endpoint, own_topic or endpoint_topic, box)
        if not ways:
            first_boxes.append(self._pass_topic("", own_topic, box))
        if source:
            producer = self._boxes.add(_PRODUCER, "producer", source, source)
            for first in first_boxes:
                self._boxes.link(producer, first, "CloudEvents source")

    def _pass_topic(self, endpoint: str, topic: str, box: str) -> str:
        """Link an endpoint, if any, to a message through a topic, if any. Return the first box after the endpoint."""
        first = box
        if topic:
            first = self._boxes.add(_TOPIC, "topic", topic, topic)
            self._boxes.link(first, box, "carries")
        if endpoint:
            self._boxes.link(endpoint, first, "has")
        return first

    def _read_landed(self) -> Iterator[tuple[tuple[str, str], dict[Xid, _Counts]]]:
        """Yield visible pipelines as (name, status) with the counts of readable messages in their newest batches."""
        reports = self._view.reports
        visible = list_visible_pipelines(reports, "", _MAX_PIPELINES + 1, partial(can_read_reports, self._view.access))
        if len(visible) > _MAX_PIPELINES:
            self._notes.append(f"More than {_MAX_PIPELINES} pipelines: the others are not shown.")
        statuses = {line.name: build_line(line, self._request.settings, self._at).status for line in visible}
        remaining_chars = _MAX_REPORT_CHARS
        for name, report in reports.newest([line.name for line in visible[:_MAX_PIPELINES]], _MAX_REPORT_CHARS):
            if remaining_chars <= 0:
                self._notes.append("The reports of pipelines are long: not all pipelines are shown.")
                return
            counts = msgspec.json.decode(report.value, type=_Report).by_message
            xids = parse_xids(counts)
            readable = {xid: counts[text] for text, xid in xids.items() if self._view.access.is_readable(xid)}
            yield (name, statuses[name]), readable
            remaining_chars -= len(report.value)

    def _add_pipeline(self, pipeline: tuple[str, str], counts: Mapping[Xid, _Counts]) -> None:
        """Add a pipeline with the messages that it reads and the tables in which they land."""
        name, status = pipeline
        sums: dict[tuple[str, Xid], list[int]] = {}
        for xid, count in counts.items():
            shown = xid.resource if xid.resource in self._message_boxes else xid.owner
            if shown in self._message_boxes:
                sums_of_box = sums.setdefault((self._message_boxes[shown], shown), [0, 0, 0])
                sums_of_box[0] += count.landed
                sums_of_box[1] += count.rejected
                sums_of_box[2] += count.landed > 0
        for (message, xid), (landed, rejected, tables) in sums.items():
            kind = f"pipeline: {status}"
            box = self._boxes.add(_PIPELINE, kind, name, name, f"{PIPELINES}/{name}", "failing" * (status == "failing"))
            text = f"{format_number(landed)} landed, {format_number(rejected)} rejected"
            self._boxes.link(message, box, text)
            if tables:
                is_message = xid.kind is Kind.RESOURCE
                kind, table = (
                    ("table", f"{xid.owner.id}.{xid.id}") if is_message else (format_count(tables, "table"), xid.id)
                )
                target = self._boxes.add(_TABLE, kind, table, table)
                self._boxes.link(box, target, text)


def _find_topic(entity: JSONObject) -> str:
    """Return the topic in the protocol options of an endpoint or message, empty if they state none."""
    options: object = entity.get("protocoloptions")
    inner = options.get("options") if isinstance(options, dict) else None
    places: list[JSONObject] = [place for place in (options, inner) if isinstance(place, dict)]
    return next((text for place in places for name in _TOPICS if (text := _read_text(place.get(name)))), "")


def _find_source(message: JSONObject) -> str:
    """Return the CloudEvents source of a message, empty if its definition does not state it."""
    envelope: object = message.get("envelopemetadata")
    return _read_text(envelope.get("source")) if isinstance(envelope, dict) else ""


def _read_text(value: JSON) -> str:
    """Return a text that is stated as it is, or as the ``value`` of a property."""
    text = value.get("value") if isinstance(value, dict) else value
    return text[:_MAX_TEXT_CHARS] if isinstance(text, str) else ""
