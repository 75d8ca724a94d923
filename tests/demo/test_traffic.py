"""Traffic files and the ledger of what must become of each line."""

from pathlib import Path

from signalbook.demo.traffic import TOKEN, SeededFault, TrafficTemplate, make_plan, write

SOUND = [
    TrafficTemplate(line=b'{"id":"' + TOKEN.encode() + b'"}', definition="/a"),
    TrafficTemplate(line=b"{}", definition="/b", reason="r"),
]
FAULTY = [
    TrafficTemplate(line=b"{", definition="/a", reason="decode_error", fault=SeededFault.BROKEN_JSON),
    TrafficTemplate(line=b'{"id":1}', definition="/a", reason="schema_violation", fault=SeededFault.WRONG_TYPE),
]


def test_the_ledger_knows_every_line(tmp_path: Path) -> None:
    ledger = write(tmp_path / "t", make_plan(SOUND, FAULTY, 500, 7, seed=3))
    texts = {str(f): f.read_bytes() for f in (tmp_path / "t").iterdir()}
    assert len(ledger.due) == sum(text.count(b"\n") for text in texts.values()) == 500
    assert ledger.bytes == sum(map(len, texts.values()))
    assert ledger.seeded == {SeededFault.BROKEN_JSON: 7, SeededFault.WRONG_TYPE: 7}
    assert list(ledger.due.values()).count("r") == ledger.nonconforming
    for (file, position), due in ledger.due.items():
        line = texts[file][position:].split(b"\n")[0]
        assert due == {b"{": "decode_error", b'{"id":1}': "schema_violation", b"{}": "r"}.get(line, "/a")


def test_the_same_seed_gives_the_same_plan() -> None:
    assert make_plan(SOUND, FAULTY, 100, 3, seed=9) == make_plan(SOUND, FAULTY, 100, 3, seed=9)
    assert make_plan(SOUND, FAULTY, 100, 3, seed=9) != make_plan(SOUND, FAULTY, 100, 3, seed=8)


def test_every_delivery_has_an_id_of_its_own() -> None:
    lines = {SOUND[0].write(number) for number in range(10_000)}
    assert len(lines) == 10_000
    assert {len(line) for line in lines} == {len('{"id":""}') + 36}
