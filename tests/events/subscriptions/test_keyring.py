import base64
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from signalbook.events.subscription import SubscriptionError
from signalbook.events.subscriptions.store import Keyring, Keys, UnreadableSecret, keyring
from signalbook.settings import SettingError, Settings

SECRET = {"secret": "correct horse"}
KEY, OTHER = b"k" * 32, b"o" * 32


def line(key: bytes) -> str:
    return base64.b64encode(key).decode("ascii") + "\n"


def test_sealed_secret_can_be_opened() -> None:
    sealed = Keys([KEY]).seal(SECRET, ["s1"])
    assert "horse" not in sealed
    assert Keys([KEY]).open(sealed, ["s1"]) == SECRET
    assert Keys([KEY]).seal(SECRET, ["s1"]) != sealed


def test_old_keys_open_and_the_newest_seals() -> None:
    """Keys can be rotated (D-31)."""
    old = Keys([KEY]).seal(SECRET, "")
    both = Keys([OTHER, KEY])
    assert both.open(old, "") == SECRET
    assert not both.is_newest(old)
    assert both.is_newest(both.seal(SECRET, ""))


@pytest.mark.parametrize(
    ("keys", "bound", "change", "message"),
    [
        (Keys([OTHER]), "here", "", "not in the key file"),
        (Keys([]), "here", "", "not in the key file"),
        (Keys([KEY]), "elsewhere", "", "changed by someone else"),
        (Keys([KEY]), "here", "AAAA", "changed by someone else"),
        (Keys([KEY]), "here", "A", "changed by someone else"),
    ],
)
def test_sealed_secret_does_not_open_elsewhere(keys: Keys, bound: str, change: str, message: str) -> None:
    sealed = Keys([KEY]).seal(SECRET, "here") + change
    with pytest.raises(UnreadableSecret, match=message):
        keys.open(sealed, bound)


def test_key_file_is_created_next_to_the_database(tmp_path: Path) -> None:
    ring = keyring(Settings(db=f"sqlite:///{tmp_path}/signalbook.db"))
    assert not ring.keys()
    sealed = ring.sealing().seal(SECRET, "")
    key_file = tmp_path / "signalbook.db.key"
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [key_file.name]
    assert Keyring(key_file).keys().open(sealed, "") == SECRET


def test_several_make_one_key(tmp_path: Path) -> None:
    rings = [Keyring(tmp_path / "key") for _ in range(16)]
    with ThreadPoolExecutor(16) as threads:
        sealed = list(threads.map(lambda ring: ring.sealing().seal(SECRET, ""), rings))
    keys = rings[0].keys()
    assert all(keys.open(text, "") == SECRET for text in sealed)


def test_a_database_server_needs_a_key_that_is_named(tmp_path: Path) -> None:
    with pytest.raises(SubscriptionError, match="key_file"):
        keyring(Settings(db="postgresql://db.example/registry")).sealing()
    ring = keyring(Settings(db="postgresql://db.example/registry", key_file=f"{tmp_path}/key"))
    with pytest.raises(SettingError, match="cannot be read: No such file"):
        ring.keys()
    (tmp_path / "key").write_text(f"# of May\n\n{line(OTHER)}{line(KEY)}")
    assert ring.keys().open(Keys([KEY]).seal(SECRET, ""), "") == SECRET
    assert Keys([OTHER]).open(ring.sealing().seal(SECRET, ""), "") == SECRET


@pytest.mark.parametrize("text", ["", "# none", "secret", line(b"short"), "é"], ids=repr)
def test_invalid_key_file_is_rejected(tmp_path: Path, text: str) -> None:
    """The file's contents are in no message."""
    (tmp_path / "key").write_text(text)
    with pytest.raises(SettingError, match="each is 32 bytes") as caught:
        Keyring(tmp_path / "key").keys()
    assert not text.strip() or text.strip() not in str(caught.value)


@pytest.mark.parametrize("before", ["", line(KEY)])
def test_a_published_key_is_refused(tmp_path: Path, before: str) -> None:
    (tmp_path / "key").write_text(before + line(b"change-me-change-me-change-me-12"))
    with pytest.raises(SettingError, match="published as an example") as caught:
        Keyring(tmp_path / "key").keys()
    assert "Y2hhbmdl" not in str(caught.value)


def test_unusable_key_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot be read"):
        Keyring(tmp_path).keys()
    with pytest.raises(SettingError, match="cannot be made"):
        Keyring(tmp_path / "nowhere" / "key").sealing()


def test_temporary_store_has_a_key_in_memory() -> None:
    ring = keyring(Settings(db="sqlite://"))
    assert ring.keys().open(ring.sealing().seal(SECRET, ""), "") == SECRET
