from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from signalbook.documents import indent
from signalbook.values import dump_json

from .test_jsonrepair import json_values


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(json_values, st.integers(1, 40))
def test_the_same_as_of_the_whole(value: object, size: int) -> None:
    text = dump_json(value)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert b"".join(indent(pieces)) == dump_json(value, indent=2) + b"\n"


def test_pieces_come_as_they_go() -> None:
    written = indent(iter([b'{"a":[1', b"2,", b'"x\\', b'""]', b"}"]))
    assert [next(written) for _ in range(2)] == [b'{\n  "a": [', b"\n    12,\n    "]
    assert b"".join(written) == b'"x\\""\n  ]\n}\n'
