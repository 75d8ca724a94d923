"""Where settings come from."""

from pathlib import Path

import pytest

from signalbook import settings
from signalbook.settings import SettingError, Settings, load


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "other.toml"
    path.write_text('port = 1\nhost = "file"\ndb = "sqlite:///file.db"\nrequest_timeout = 5\n', encoding="utf-8")
    return path


def test_defaults() -> None:
    assert load() == Settings()


def test_precedence_of_command_line_environment_and_file(config: Path) -> None:
    environ = {"SIGNALBOOK_PORT": "2", "SIGNALBOOK_HOST": "environment", "SIGNALBOOK_DEBUG": "1", "PATH": "/bin"}
    loaded = load({"port": 3, "db": None}, environ=environ, config=config)
    assert (loaded.port, loaded.host, loaded.db) == (3, "environment", "sqlite:///file.db")
    assert (loaded.request_timeout, type(loaded.request_timeout)) == (5.0, float)


def test_a_file_in_the_working_directory_is_read() -> None:
    Path("signalbook.toml").write_text("port = 7\n", encoding="utf-8")
    assert load().port == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("port = ", "other.toml is not TOML"),
        ("prot = 1", "unknown setting 'prot'; there are: host, port"),
        ('port = "x"', "other.toml: port is a whole number, not 'x'"),
        ("port = true", "port is a whole number, not True"),
        ("port = [1]", r"port is a whole number, not \[1\]"),
    ],
)
def test_faults_in_a_file(config: Path, text: str, message: str) -> None:
    config.write_text(text, encoding="utf-8")
    with pytest.raises(SettingError, match=message):
        load(config=config)


def test_missing_config_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"cannot read config file .*gone.toml: No such file"):
        load(config=tmp_path / "gone.toml")


@pytest.mark.parametrize("value", ["", "x", "1.5"])
def test_faults_in_the_environment(value: str) -> None:
    with pytest.raises(SettingError, match="environment variable SIGNALBOOK_PORT: port is a whole number"):
        load(environ={"SIGNALBOOK_PORT": value})


def test_an_unknown_setting() -> None:
    with pytest.raises(SettingError, match="unknown setting 'prot'"):
        load({"prot": 1})


@pytest.mark.parametrize("name", settings.names())
def test_every_setting_is_explained(name: str) -> None:
    assert settings.help_for(name).endswith(".")
    assert type(getattr(Settings(), name)) in (str, int, float, tuple)


@pytest.mark.parametrize("value", ["a, b:1", "a b:1", "a,b:1"])
def test_lists_in_the_environment(value: str) -> None:
    assert settings.load({}, environ={"SIGNALBOOK_ALLOW_FETCH": value}).allow_fetch == ("a", "b:1")


def test_lists_in_a_file_and_on_the_command_line(tmp_path: Path) -> None:
    config = tmp_path / "s.toml"
    config.write_text('allow_fetch = ["a", "b"]')
    assert settings.load({"allow_fetch": None}, config=config).allow_fetch == ("a", "b")
    assert settings.load({"allow_fetch": ["c"]}, config=config).allow_fetch == ("c",)
    assert settings.load({"allow_fetch": ["c:1,d", "e"]}, config=config).allow_fetch == ("c:1", "d", "e")
    config.write_text("allow_fetch = [7]")
    with pytest.raises(settings.SettingError, match="allow_fetch is a list of texts"):
        settings.load(config=config)
