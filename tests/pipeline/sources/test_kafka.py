"""Addresses of Kafka topics, and what Spark is given of them."""

import re

import pytest

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources.kafka import build_connector_options


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
def test_options_of_the_spark_connector(inputs: list[str], options: dict[str, str], expected: dict[str, str]) -> None:
    connector_settings = build_connector_options(inputs, options)
    assert connector_settings.items() >= expected.items()
    assert connector_settings["includeHeaders"] == "true"


@pytest.mark.parametrize(
    ("inputs", "options", "words"),
    [
        (["topic"], {}, "'topic' is no address of Kafka topics"),
        (["http://h/a"], {}, "is no address"),
        (["kafka://u:p@h:1/a"], {}, "'kafka://h:1/a' was given with a login"),
        (["kafka://[h/a"], {}, "'kafka://[h/a' is no address"),
        (["kafka://h:1/"], {}, "name the topics of h:1"),
        (["kafka://h:1/a?pattern=b"], {}, "name the topics of h:1"),
        (["kafka://h:1/a", "kafka://i:1/a"], {}, "one Kafka cluster, not from h:1, i:1"),
        (["kafka://h:1/a%20b"], {}, "'a b' is no name of a Kafka topic"),
        (["kafka://h:1/a"], {"subscribe": "b"}, "the option subscribe is for the pipeline to set"),
        (["kafka://h:1/a?kafka.bootstrap.servers=x"], {}, "kafka.bootstrap.servers is for the pipeline to set"),
    ],
)
def test_invalid_address_is_rejected(inputs: list[str], options: dict[str, str], words: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(words)):
        build_connector_options(inputs, options)


@pytest.mark.parametrize("text", ["kafka://u:hush@h:1/a", "kafka://u:hush@[h/a", "kafka://h/a%20b?password=hush"])
def test_errors_name_no_secrets(text: str) -> None:
    for inputs in ([text], [text, "kafka://i:1/a"]):
        with pytest.raises(PipelineError) as caught:
            build_connector_options(inputs, {})
        assert "hush" not in str(caught.value)
