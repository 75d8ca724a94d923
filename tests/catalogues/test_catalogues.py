"""Samples of public catalogues, as they are; ``python -m tests.catalogues`` judges them whole."""

from pathlib import Path

from tests.catalogues import google, judging

SAMPLES = Path(__file__).parents[1] / "data" / "catalogues"
GOOGLE = SAMPLES / "google-cloudevents"


def test_googles_events_by_protobuf() -> None:
    """The events import each other and Google's common protos; a stray ``@type`` is rejected, as by the library."""
    assert len(google.event_types(GOOGLE)) == 6
    assert judging.by_protobuf(GOOGLE) == {
        "definitions": 6,
        "usable": 6,
        "events": 14,
        "landed as ProtoJSON": 9,
        "landed in binary, with the same data": 9,
        "refused as the library does": 5,
    }


def test_googles_events_in_a_run() -> None:
    """The native decoders produce the same rows for both forms."""
    assert judging.by_pipeline(GOOGLE) == {"landed": 18, "dead_letters": 5, "alike in both forms": 9}


def test_googles_events_by_json_schema() -> None:
    counts = judging.by_json_schema(GOOGLE)
    assert (counts["definitions"], counts["usable"]) == (5, 5)
    assert counts["events"] == counts["landed"] + counts["refused"] == 11
    assert counts["refused"] > 0


def test_iglus_schemas() -> None:
    """Their ``$schema`` is no dialect; the format says which one holds. One takes nothing but ``{}``."""
    assert judging.by_iglu(SAMPLES / "iglu-central") == {"imported": 3, "schemas": 3, "usable": 3, "columns": 2}
