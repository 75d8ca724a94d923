"""Addresses of brokers that sources connect to by themselves, and who logs in there."""

import pytest

from signalbook.brokers.connection import BrokerUnavailable
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources.brokers import BrokerInputFormat

FORMAT = BrokerInputFormat(
    name="X", form="x://HOST/THING", schemes={"x": (7, False), "xs": (8, True)}, options=("colour",)
)


@pytest.mark.parametrize(
    ("inputs", "hosts", "secure", "names"),
    [
        (["x://h/a"], [("h", 7)], False, ["a"]),
        (["xs://H,i:9/a,b"], [("h", 8), ("i", 9)], True, ["a", "b"]),
        (["x://h:1/a", "x://h:1/b,a"], [("h", 1)], False, ["a", "b"]),
        (["x://[::1]:1/a%2Cb/c"], [("::1", 1)], False, ["a,b/c"]),
        (["x://h"], [("h", 7)], False, []),
    ],
)
def test_addresses_of_brokers(inputs: list[str], hosts: list[tuple[str, int]], secure: bool, names: list[str]) -> None:
    broker = FORMAT.read(inputs, {})
    settings = broker.settings
    assert (list(settings.servers), settings.secure, list(broker.names)) == (hosts, secure, names)


def test_options_can_be_given_in_the_address() -> None:
    broker = FORMAT.read(["x://h/a?colour=red&timeout=5"], {"user": "me", "password": "hush-7"})
    settings = broker.settings
    assert (broker.options["colour"], settings.timeout) == ("red", 5.0)
    assert (settings.user, settings.password) == ("me", "hush-7")
    assert "hush-7" not in f"{broker} {broker!r}"


@pytest.mark.parametrize(
    ("inputs", "options", "words"),
    [
        (["a"], {}, "'a' is no address of X: it looks like x://HOST/THING"),
        (["y://h/a"], {}, "no address of X"),
        (["x://h/a#b"], {}, "no address of X"),
        (["x://h:port/a"], {}, "no address of X"),
        (["x://[::1/a"], {}, "no address of X"),
        (["x://:7/a"], {}, "no address of X"),
        (["x://h,/a"], {}, "no address of X"),
        (["x://u:hush-7@h/a"], {}, "user and password are options"),
        (["x://h/a?password=hush-7"], {}, "the option password does not belong into an address"),
        (["x://h/a", "xs://h/a"], {}, "one run reads from one broker, not from 2"),
        (["x://h/a"], {"color": "red"}, "X has no option 'color'; there are: user, password"),
        (["x://h/a"], {"timeout": "soon"}, "a number of seconds up to 86400, not 'soon'"),
        (["x://h/a?timeout=0"], {}, "not '0'"),
    ],
)
def test_invalid_address_is_rejected(inputs: list[str], options: dict[str, str], words: str) -> None:
    with pytest.raises(PipelineError) as caught:
        FORMAT.read(inputs, options)
    assert words in str(caught.value)
    assert "hush-7" not in str(caught.value)


def test_unreadable_certificate_is_rejected() -> None:
    broker = FORMAT.read(["xs://h:1/a"], {"ca": "/nowhere.pem"})
    with pytest.raises(PipelineError, match=r"cannot be read \(ca /nowhere.pem\)"), broker.convert_refusals():
        broker.settings.tls_context()


def test_unavailable_broker_is_retried() -> None:
    broker, calls = FORMAT.read(["x://h:1/a"], {"timeout": "300"}), []

    def fail_once() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise BrokerUnavailable("away")
        return 5

    assert broker.retry(fail_once) == 5


def test_lasting_outage_of_a_broker_is_an_error() -> None:
    def fail() -> None:
        raise BrokerUnavailable("nobody there")

    broker = FORMAT.read(["x://h:1/a"], {"timeout": "0.01"})
    with pytest.raises(PipelineError, match="the broker h:1: nobody there"):
        broker.retry(fail)
