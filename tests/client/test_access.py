"""The access policy through the client."""

import pytest

from signalbook.client import Client, NotFound, Refused

RULES = [
    {"who": ["subject:pat"], "role": "administrator"},
    {"who": ["anyone"], "role": "reader", "on": ["/schemagroups/a b"]},
]


def test_a_policy_from_the_first_one_on(registry_url: str) -> None:
    with Client(registry_url) as client:
        with pytest.raises(NotFound, match="no policy is configured"):
            client.access.policy()
        assert client.access.whoami("/schemagroups")["restricted"] is False
        with pytest.raises(Refused) as caught:
            client.access.put({"rules": RULES})
        assert [fault.path for fault in caught.value.faults] == ["/rules/1/on/0"]
        token = client.tokens.add({"subject": "pat"})["token"]
        rules = [RULES[0], {**RULES[1], "on": ["/schemagroups/a*"]}]
        assert client.access.put({"rules": rules}, new=True) == {"rules": rules}
        identity = client.access.whoami("/schemagroups/a")
        assert (identity["name"], identity["may"]) == ("anonymous", ["list", "read"])
        for refused in (client.access.policy, lambda: client.access.explain(["group:x,y"], "read", "/schemagroups/a")):
            with pytest.raises(Refused, match="send credentials") as caught:
                refused()
            assert caught.value.status == 401
    with Client(registry_url, token=token) as client:
        assert client.access.policy() == {"rules": rules}
        explanation = client.access.explain(["subject:cn=x,dc=y", "group:z"], "update", "/schemagroups/a")
        assert (explanation["allowed"], explanation["missing"]) == (False, ["update"])
        assert client.access.put({"rules": RULES[:1]}) == {"rules": RULES[:1]}
