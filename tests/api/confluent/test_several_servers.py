"""Ids are given once by several server processes at a time."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from tests.serving import serving

from signalbook.confluent.avro import rewrite_schema

CONTENTS, CLIENTS = 40, 6


def schema(number: int) -> str:
    return json.dumps({"name": f"R{number}", "type": "record", "fields": [{"name": "a", "type": "long"}]})


@pytest.mark.merge
def test_several_servers_give_one_id_to_one_content(store_url: str, tmp_path: Path) -> None:
    """Several clients register all schemas in different orders, under their own subjects, at two servers."""
    first, second = tmp_path / "one", tmp_path / "two"
    first.mkdir()
    second.mkdir()
    with serving(first, "--db", store_url, "--workers", "2") as first_url, serving(second, "--db", store_url) as two:
        httpx.put(f"{first_url}/compat/confluent/config", json={"compatibility": "NONE"}, timeout=60).raise_for_status()

        def bring(client: int) -> list[tuple[int, int]]:
            """Contents, and the ids that they got."""
            numbers = list(range(CONTENTS))
            Random(client).shuffle(numbers)
            registered = []
            with httpx.Client(base_url=(first_url, two)[client % 2], timeout=120) as http:
                for number in numbers:
                    if number % 4 == client % 4:
                        headers = {"xRegistry-format": "Avro/1.11", "Content-Type": "application/json"}
                        path = f"/schemagroups/default/schemas/x{client}-{number}/versions/1"
                        text = json.dumps(rewrite_schema(json.loads(schema(number))), separators=(",", ":"))
                        http.put(path, content=text, headers=headers).raise_for_status()
                    path = f"/compat/confluent/subjects/s{client}/versions"
                    answer = http.post(path, json={"schema": schema(number)}).raise_for_status()
                    registered.append((number, answer.json()["id"]))
            return registered

        with ThreadPoolExecutor(CLIENTS) as pool:
            brought = [pair for pairs in pool.map(bring, range(CLIENTS)) for pair in pairs]
        ids = dict(brought)
        assert Counter(brought) == dict.fromkeys(ids.items(), CLIENTS)
        assert sorted(ids.values()) == list(range(1, CONTENTS + 1))
        for number, schema_id in ids.items():
            stored_schema: Any = httpx.get(f"{two}/compat/confluent/schemas/ids/{schema_id}", timeout=60).json()
            assert json.loads(stored_schema["schema"])["name"] == f"R{number}"
            places = httpx.get(f"{first_url}/compat/confluent/schemas/ids/{schema_id}/versions", timeout=60).json()
            assert len({place["subject"] for place in places}) == len(places) >= CLIENTS
