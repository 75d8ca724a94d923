"""What is written through any API reads the same through all of them, by the projections."""

import json
from itertools import count
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.conftest import Client
from tests.examples import examples

from signalbook.cncf.messagecatalog import originals
from signalbook.cncf.messagecatalog.conversion import definition_to_message, message_to_definition
from signalbook.cncf.messagecatalog.metaschemas import format_attributes, to_first_spelling, to_newer_spelling

MOUNTS = {"first": "/compat/messagecatalog/v0/messagecatalog", "v01": "/compat/messagecatalog/v0.1/messagecatalog"}
_numbers = count()

_TEXT = st.sampled_from(["", "x", "/a/{b}", "{+c}", "a {b} c"])
_TEMPLATE = st.fixed_dictionaries({"value": _TEXT}, optional={"required": st.booleans(), "description": st.just("d")})
_FLAG = st.fixed_dictionaries({"value": st.sampled_from([True, False, "true", "{x}", ""])})
_SCHEMA = st.sampled_from(
    [{"value": "urn:x"}, {"value": "urn:x", "schematype": "Avro"}, {"schematype": "JSON", "schema": {}}]
)
_FIVE = st.just({"value": 5})


def _some(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with some of the members."""
    return st.fixed_dictionaries({}, optional=members)


_ATTRIBUTES = st.fixed_dictionaries(
    {"type": st.just({"value": "a.b"})},
    optional={"subject": _TEMPLATE, "colour": _TEMPLATE, "dataschema": _SCHEMA, "size": _FIVE},
)
DEFINITIONS: dict[str, st.SearchStrategy[Any]] = {
    "CloudEvents": st.fixed_dictionaries({"attributes": _ATTRIBUTES}),
    "AMQP": _some(
        header=_some(durable=_FLAG, ttl=_FIVE),
        properties=_some(to=_TEMPLATE, messageid=_TEMPLATE),
        applicationproperties=st.dictionaries(st.sampled_from(["a", "Upper"]), _TEMPLATE),
        applicationdata=st.fixed_dictionaries({"amqpencoding": st.just("Value")}, optional={"dataschema": _SCHEMA}),
    ),
    "MQTT": _some(
        publish=_some(retain=_FLAG, topicname=_TEMPLATE),
        userproperty=st.dictionaries(st.sampled_from(["a", "B c"]), _TEMPLATE),
        payload=st.fixed_dictionaries({"dataschema": _SCHEMA}),
    ),
    "ours": st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2),
}
WRITES = st.sampled_from(sorted(DEFINITIONS)).flatmap(
    lambda form: st.tuples(st.just(form), st.sampled_from(["xregistry", *MOUNTS]), DEFINITIONS[form])
)


def write(book: Client, group: str, format: str, api: str, definition: Any) -> None:
    """Make a group of ``format``, and the message ``a.b`` in it, through ``api``."""
    if api == "xregistry":
        stated = {name: value for name, value in format_attributes(format).items() if value is not None}
        book.put(f"/messagegroups/{group}", stated)
        answer = book.put(f"/messagegroups/{group}/messages/a.b", definition_to_message(format, definition, stated))
    elif api == "first":
        book.put(f"{MOUNTS[api]}/{group}", {"specversion": "0.1", "format": format})
        body = json.dumps(to_first_spelling(format, definition))
        answer = book.send("POST", f"{MOUNTS[api]}/{group}/messagedefinitions/a.b", content=body)
    else:
        book.put(f"{MOUNTS[api]}/{group}", {"specversion": "0.1", "format": format})
        document = {"id": "a.b", "definition": definition}
        answer = book.send("POST", f"{MOUNTS[api]}/{group}/messagedefinitions", json=document)
    assert answer.is_success, answer.text


# Every example has a group of its own in the one registry.
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(WRITES)
def test_every_api_shows_what_any_api_wrote(book: Client, written: tuple[str, str, Any]) -> None:
    """J-7, J-11 to J-18."""
    form, api, definition = written
    group = f"g{next(_numbers)}"
    write(book, group, form, api, definition)
    message = book.get(f"/messagegroups/{group}/messages/a.b").json()
    v01 = book.get(f"{MOUNTS['v01']}/{group}/messagedefinitions/a.b").json()
    first = book.get(f"{MOUNTS['first']}/{group}/messagedefinitions/a.b")
    assert v01["format"] == first.headers["MessageDefinition-Format"] == form
    assert v01["definition"] == originals.restore_definition(form, message)
    stated = format_attributes(form)
    if form != "ours":
        again = definition_to_message(form, v01["definition"], stated)
        assert message_to_definition(form, again) == message_to_definition(form, message)
        sections = {name: value for name, value in first.json().items() if name not in originals.BESIDE}
        assert to_newer_spelling(form, to_first_spelling(form, v01["definition"])) == to_newer_spelling(form, sections)
    if api == "v01":
        assert v01["definition"] == definition
    if api == "first":
        assert first.json() == to_first_spelling(form, definition)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a.b", "{x}", "{", "urn:x", "5.0", "\x00"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["value", "required", "schema", "schematype", "dataschema", "type"]), inner)
    ),
    max_leaves=4,
)
_SECTIONS = st.dictionaries(
    st.sampled_from(["attributes", "header", "properties", "applicationdata", "publish", "userproperty", "pub"])
    | st.sampled_from(["payload", "protocol", "envelope", "envelopemetadata", "dataschema", "id", "format", "tags"]),
    st.dictionaries(st.sampled_from(["type", "to", "qos", "mqttversion", "subject", "dataschema", "A"]), _JSON) | _JSON,
    max_size=3,
)
FORMATS = ("CloudEvents", "AMQP", "MQTT", "NATS", "HTTP", "KAFKA", "xRegistry", "ours")


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(FORMATS), _SECTIONS, st.dictionaries(st.sampled_from(["tags", "versions", "x"]), _JSON))
def test_random_definitions_are_accepted_or_rejected(book: Client, form: str, definition: Any, beside: Any) -> None:
    """No request fails with 5xx, and all APIs show what was accepted."""
    for api in MOUNTS.values():
        group = f"f{next(_numbers)}"
        assert book.put(f"{api}/{group}", {"specversion": "0.1", "format": form}).is_success
        place = f"{api}/{group}/messagedefinitions"
        if api == MOUNTS["v01"]:
            answer = book.send("POST", place, json={"id": "a.b", "definition": definition, **beside})
        else:
            answer = book.send("POST", f"{place}/a.b", content=json.dumps({**definition, **beside}))
        assert answer.status_code in (200, 400, 409), (answer.status_code, answer.text)
        if answer.is_success:
            assert book.get(f"/messagegroups/{group}/messages/a.b").is_success
            assert all(
                book.get(f"{other_api}/{group}/messagedefinitions/a.b").is_success for other_api in MOUNTS.values()
            )
