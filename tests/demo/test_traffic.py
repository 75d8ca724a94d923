"""Traffic files and the ledger of what must become of each line."""

from __future__ import annotations

from pathlib import Path

from signalbook.demo.traffic import TOKEN, SeededFault, TrafficTemplate, delivery_id, write

SOUND = [
    TrafficTemplate(line=b'{"id":"' + TOKEN + b'"}', definition="/a"),
    TrafficTemplate(line=b"{}", definition="/b", reason="r"),
]
FAULTY = [
    TrafficTemplate(line=b"{", definition="/a", reason="decode_error", fault=SeededFault.BROKEN_JSON),
    TrafficTemplate(line=b'{"id":1}', definition="/a", reason="schema_violation", fault=SeededFault.WRONG_TYPE),
]


def test_the_ledger_knows_every_line(tmp_path: Path) -> None:
    ledger = write(tmp_path / "t", SOUND, FAULTY, count=500, faults_of_each_kind=7, seed=3)
    texts = {f.name: f.read_bytes() for f in (tmp_path / "t").iterdir()}
    assert ledger.written == sum(text.count(b"\n") for text in texts.values()) == 500
    assert ledger.bytes == sum(map(len, texts.values()))
    assert ledger.seeded == {SeededFault.BROKEN_JSON: 7, SeededFault.WRONG_TYPE: 7}
    assert ledger.landed.total() + len(ledger.sidelined) == 500
    for (file, position), reason in ledger.sidelined.items():
        line = texts[file][position:].split(b"\n")[0]
        assert reason == {b"{": "decode_error", b'{"id":1}': "schema_violation", b"{}": "r"}[line]


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name, SOUND, FAULTY, count=100, faults_of_each_kind=3, seed=9)
    assert [(tmp_path / "one" / f.name).read_bytes() for f in sorted((tmp_path / "two").iterdir())] == [
        f.read_bytes() for f in sorted((tmp_path / "two").iterdir())
    ]


def test_every_delivery_has_an_id_of_its_own() -> None:
    assert len({delivery_id(number) for number in range(10_000)}) == 10_000
    assert len(delivery_id(5)) == 36
