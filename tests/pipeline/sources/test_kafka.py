"""Addresses of Kafka topics, and what Spark is given of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages import to_record
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.landing.rows import address
from signalbook.pipeline.sources.base import RECORD_TYPES, record_batches
from signalbook.pipeline.sources.kafka import connector_options, message_records, record_message


@pytest.mark.parametrize(
    ("inputs", "options", "expected"),
    [
        (["kafka://h:9092/a"], {}, {"kafka.bootstrap.servers": "h:9092", "subscribe": "a"}),
        (["kafka://h:1,i:2/a,b", "kafka://h:1,i:2/b"], {}, {"kafka.bootstrap.servers": "h:1,i:2", "subscribe": "a,b"}),
        (["kafka://h:1/?pattern=or.*"], {}, {"subscribePattern": "or.*"}),
        (["kafka://h:1/a?startingOffsets=latest"], {}, {"startingOffsets": "latest"}),
        (["kafka://h:1/a"], {"kafka.security.protocol": "SSL"}, {"kafka.security.protocol": "SSL"}),
    ],
)
def test_what_spark_is_reported(inputs: list[str], options: dict[str, str], expected: dict[str, str]) -> None:
    found = connector_options(inputs, options)
    assert found.items() >= expected.items()
    assert found["includeHeaders"] == "true"


@pytest.mark.parametrize(
    ("inputs", "options", "words"),
    [
        (["topic"], {}, "'topic' is no address of Kafka topics"),
        (["http://h/a"], {}, "is no address"),
        (["kafka://u:p@h:1/a"], {}, "is no address"),
        (["kafka://[h/a"], {}, "'kafka://[h/a' is no address"),
        (["kafka://h:1/"], {}, "name the topics of h:1"),
        (["kafka://h:1/a?pattern=b"], {}, "name the topics of h:1"),
        (["kafka://h:1/a", "kafka://i:1/a"], {}, "one Kafka cluster, not from h:1, i:1"),
        (["kafka://h:1/a%20b"], {}, "'a b' is no name of a Kafka topic"),
        (["kafka://h:1/a"], {"subscribe": "b"}, "the option subscribe is for the pipeline to set"),
        (["kafka://h:1/a?kafka.bootstrap.servers=x"], {}, "kafka.bootstrap.servers is for the pipeline to set"),
    ],
)
def test_what_is_no_address(inputs: list[str], options: dict[str, str], words: str) -> None:
    with pytest.raises(PipelineError) as caught:
        connector_options(inputs, options)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["kafka://u:hush@h:1/a", "kafka://u:hush@[h/a", "kafka://h/a%20b?password=hush"])
def test_errors_name_no_secrets(text: str) -> None:
    for inputs in ([text], [text, "kafka://i:1/a"]):
        with pytest.raises(PipelineError) as caught:
            connector_options(inputs, {})
        assert "hush" not in str(caught.value)


TEXTS = st.one_of(st.text(max_size=5), st.sampled_from(["content-type", "content-encoding", "a/b", '"\\']), st.none())
BYTES = st.one_of(st.binary(max_size=5), st.sampled_from([b"text/plain", b"\xff", "ü".encode()]), st.none())
ROWS = st.fixed_dictionaries(
    {
        "protocol": st.just("KAFKA"),
        "source": st.sampled_from(["kafka:t/0", 'a"ü']),
        "position": st.integers(-1, 2**62),
        "address": TEXTS,
        "partition": st.one_of(st.none(), st.integers(0, 9)),
        "key": BYTES,
        "value": BYTES,
        "headers": st.one_of(st.none(), st.lists(st.fixed_dictionaries({"name": TEXTS, "value": BYTES}), max_size=4)),
        "received_at": st.one_of(
            st.none(),
            st.datetimes(datetime(1, 1, 2), datetime(9999, 1, 1), timezones=st.just(UTC)),
        ),
    }
)


@given(st.lists(ROWS, min_size=1, max_size=6), st.data())
def test_many_records_are_said_what_each_is(rows: list[dict[str, object]], data: st.DataObject) -> None:
    """K-45: what a dead letter keeps is enough for the same message, whichever way it was rejected."""
    for batch in record_batches(pa.RecordBatch.from_pylist(rows, RECORD_TYPES)):
        indices = data.draw(st.lists(st.integers(0, len(batch) - 1), unique=True))
        messages = [record_message(batch, index) for index in indices]
        found = message_records(batch, indices)
        assert found.texts.to_pylist() == [to_record(message) for message in messages]
        assert {found.protocol} >= {message.protocol for message in messages}
        assert found.content_types.to_pylist() == [message.content_type or None for message in messages]
        assert found.addresses.to_pylist() == [address(message) for message in messages]
        assert found.received_at.to_pylist() == [message.received_at for message in messages]
