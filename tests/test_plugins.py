"""What is installed enters by one door, each thing under one name."""

from importlib.metadata import EntryPoint

import pytest

from signalbook.plugins import PluginClash, collect, load, lower, offered, upper


def test_a_name_clash_raises() -> None:
    here = EntryPoint(name="avro", value="a:FORMAT", group="signalbook.formats")
    there = EntryPoint(name="Avro", value="b:FORMAT", group="signalbook.formats")
    with pytest.raises(PluginClash, match="schema format 'avro' is offered by both a:FORMAT and b:FORMAT"):
        collect([here, there], "schema format", lower)
    assert collect([here, here], "schema format", lower) == {"avro": here}
    assert collect([here, here], "protocol", upper) == {"AVRO": here}


def test_plugins_are_loaded_once() -> None:
    points = offered("signalbook.formats", "schema format", lower)
    assert load(points["avro"]) is load(points["avro"])
    assert offered("signalbook.nothing", "thing", lower) == {}
