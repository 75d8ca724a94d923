import json
from contextlib import closing
from pathlib import Path

from tests.storage.test_migrate import OLD_ROWS, USED_GROUPS, at_revision, run, used

from signalbook.storage import open_store
from signalbook.storage.entity_writing import GroupUsage
from signalbook.storage.inspection import inspect
from signalbook.storage.schema import REVISION

from .conftest import Cli


def test_an_empty_one_an_old_one_and_one_that_is_new_already(cli: Cli, tmp_path: Path) -> None:
    old = f"sqlite:///{tmp_path / 'old.db'}"
    at_revision("0001", old, OLD_ROWS)
    for url in (f"sqlite:///{tmp_path / 'new.db'}", old, old):
        assert cli("migrate", "--db", url).ended(0, f"has schema {REVISION}")
        assert inspect(url, timeout=5).revision == REVISION


def test_group_usage_is_recounted(cli: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    at_revision("0011", url, USED_GROUPS)
    assert cli("migrate", "--db", url).code == 0
    run(url, "DELETE FROM group_usage")
    assert cli("migrate", "--db", url, "--recount").code == 0
    with closing(open_store(url)) as store:
        assert used(store) == GroupUsage(versions=3, bytes=0)


def test_migration_is_audited(cli: Cli, store_url: str) -> None:
    at_revision("0009", store_url)
    for options in ((), (), ("--recount",)):
        assert cli("migrate", "--db", store_url, *options).code == 0
    entries = [json.loads(line) for line in cli("audit", "--db", store_url, "--json").out.splitlines()]
    columns = ("(signalbook)", "administer", "done", ["/"])
    assert [(entry["who"], entry["action"], entry["outcome"], entry["xids"], entry["about"]) for entry in entries] == [
        (*columns, "counted anew what Groups have"),
        (*columns, f"migrated from schema 0009 to {REVISION}"),
    ]
