"""The parcel carrier's catalogue and events."""

import json

import jsonschema_rs

from signalbook.demo import parcels
from signalbook.demo.traffic import REASONS, SeededFault


def test_every_message_of_the_catalogue_but_the_base_has_traffic() -> None:
    groups = parcels.carrier_definitions()["messagegroups"]
    defined = {f"/messagegroups/{g}/messages/{m}" for g, group in groups.items() for m in group["messages"]}
    assert {t.definition for t in parcels.sound_templates()} == defined - {
        f"{parcels.PARCELS}/messages/example.parcels.base"
    }


def test_every_seeded_fault_has_its_reason() -> None:
    faulty = parcels.faulty_templates()
    assert {t.fault for t in faulty} == set(SeededFault)
    assert all(t.fault and t.reason == REASONS[t.fault] for t in faulty)


def test_a_sound_event_is_one_line_of_json() -> None:
    for template in parcels.sound_templates():
        assert b"\n" not in template.line
        assert json.loads(template.line)["specversion"] == "1.0"


def test_later_events_are_of_what_the_later_catalogues_define() -> None:
    for name, templates in parcels.later_templates().items():
        schemas = parcels.carrier_definitions(name)["schemagroups"]["example.parcels"]["schemas"]
        (schema,) = (version["schema"] for resource in schemas.values() for version in resource["versions"].values())
        for template in templates:
            jsonschema_rs.Draft202012Validator(schema).validate(json.loads(template.line)["data"])


def test_the_second_version_only_adds_a_member() -> None:
    first, second = (
        parcels.carrier_definitions(name)["schemagroups"]["example.parcels"]["schemas"]["delivered"]["versions"][
            version
        ]["schema"]
        for name, version in (("parcels", "1"), ("parcels-co2", "2"))
    )
    assert second["properties"].pop("co2")["type"] == "number"
    assert second == first
