from typing import Any

import pytest

from signalbook.events.sinks.http import WebhookSettings, read_settings
from signalbook.events.subscription import SubscriptionError


@pytest.mark.parametrize(
    ("settings", "read_as"),
    [
        ({}, WebhookSettings()),
        ({"method": "PUT"}, WebhookSettings(method="PUT")),  # D-30
        ({"headers": {"X-Shop": "a b\tc"}}, WebhookSettings(headers={"X-Shop": "a b\tc"})),  # D-30
        ({"mode": "structured"}, WebhookSettings()),
        ({"mode": "batch", "rate": 60}, WebhookSettings(mode="batch", rate=60)),
        ({"accesstokenin": "query"}, WebhookSettings(query=True)),  # D-35
        ({"accesstokenin": "header"}, WebhookSettings()),
    ],
)
def test_settings(settings: dict[str, Any], read_as: WebhookSettings) -> None:
    assert read_settings(settings) == read_as


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"metod": "POST"}, "/metod: HTTP has no such setting"),
        ({"method": "GET"}, "/method: it is POST, PUT, PATCH"),
        ({"method": 1}, "/method"),
        ({"mode": "binary"}, "/mode: web hooks want a payload"),  # D-22
        ({"mode": "x"}, "/mode: it is structured or batch"),
        ({"rate": 0}, "/rate"),
        ({"rate": True}, "/rate"),
        ({"rate": "9"}, "/rate"),
        ({"accesstokenin": "body"}, "/accesstokenin"),
        ({"headers": []}, "/headers"),
        ({"headers": {str(n): "x" for n in range(33)}}, "/headers"),
        ({"headers": {"X": 1}}, "/headers/X"),
        ({"headers": {"X": ""}}, "/headers/X"),
        ({"headers": {"X": "a\r\nHost: b"}}, "/headers/X"),
        ({"headers": {"X": "é"}}, "/headers/X"),
        ({"headers": {"a b": "x"}}, "/headers/a b"),
        ({"headers": {"": "x"}}, "/headers/"),
        ({"headers": {"Host": "x"}}, "/headers/Host: this header is not for subscriptions"),
        ({"headers": {"CONTENT-LENGTH": "1"}}, "/headers/CONTENT-LENGTH: this header is not"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "/headers/Transfer-Encoding: this header is not"),
        ({"headers": {"Authorization": "x"}}, "/headers/Authorization: this header is not"),
        ({"headers": {"WebHook-Request-Origin": "x"}}, "/headers/WebHook-Request-Origin: this header is not"),
    ],
)
def test_invalid_setting_is_rejected(settings: dict[str, Any], place: str) -> None:
    with pytest.raises(SubscriptionError) as raised:
        read_settings(settings)
    assert str(raised.value).startswith(f"/protocolsettings{place}")
