"""The keys: created once, kept private, and refused where they would be useless."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from regsvc.auth.keys import Keys, SigningKeys, UnusableKey, fingerprint, load_keys
from regsvc.config.sections import AuthSection

OWN_KEY = "an own key of more than thirty-two characters"
OLD_KEY = "the former key, of more than thirty-two too"


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_first_start_makes_keys_for_us_alone(tmp_path: Path) -> None:
    state_dir = tmp_path / "var" / "state"

    keys = load_keys(AuthSection(), state_dir)

    assert permissions(state_dir) == 0o700
    assert {path.name: permissions(path) for path in state_dir.iterdir()} == {
        "installation.key": 0o600,
        "signing.key": 0o600,
    }
    assert len(keys.installation_key) == len(keys.signing.current) == 64
    assert keys.installation_key != keys.signing.current


def test_a_generous_umask_does_not_open_them(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        load_keys(AuthSection(), tmp_path / "state")
    finally:
        os.umask(before)
    assert permissions(tmp_path / "state" / "signing.key") == 0o600


def test_the_second_start_finds_the_same_keys(tmp_path: Path) -> None:
    first = load_keys(AuthSection(), tmp_path)
    second = load_keys(AuthSection(), tmp_path)

    assert second.installation_key == first.installation_key
    assert second.signing.current == first.signing.current


def test_processes_that_start_together_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(lambda number: load_keys(AuthSection(), tmp_path), range(8)))

    assert len({keys.installation_key for keys in started}) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["installation.key", "signing.key"]


def test_given_keys_need_no_directory(tmp_path: Path) -> None:
    auth = AuthSection(installation_key=OWN_KEY, signing_key=OLD_KEY)

    keys = load_keys(auth, tmp_path / "nowhere")

    assert keys.installation_key == OWN_KEY.encode()
    assert keys.signing.current == OLD_KEY.encode()
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o602, 0o604])
def test_a_key_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    load_keys(AuthSection(), tmp_path)
    key_file = tmp_path / "signing.key"
    key_file.chmod(mode)

    with pytest.raises(UnusableKey, match=f"chmod 600 {key_file}"):
        load_keys(AuthSection(), tmp_path)


def test_a_directory_that_everybody_may_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UnusableKey, match=f"chmod 700 {tmp_path}"):
        load_keys(AuthSection(), tmp_path)


@pytest.mark.parametrize(
    "written", ["", "too little", "changeme" * 5, "CHANGE-ME-" * 4], ids=["empty", "short", "sample", "shouted"]
)
def test_a_short_or_well_known_key_is_refused_and_not_repeated(tmp_path: Path, written: str) -> None:
    key_file = tmp_path / "installation.key"
    key_file.write_text(written)
    key_file.chmod(0o600)

    with pytest.raises(UnusableKey) as refused:
        load_keys(AuthSection(), tmp_path)
    assert str(key_file) in str(refused.value)
    assert not written or written not in str(refused.value)


def test_a_given_key_is_looked_at_as_well(tmp_path: Path) -> None:
    with pytest.raises(UnusableKey, match=r"auth\.signing_key must have at least 32 characters"):
        load_keys(AuthSection(signing_key="short"), tmp_path)
    with pytest.raises(UnusableKey, match=r"auth\.previous_keys"):
        load_keys(AuthSection(previous_keys=("short",)), tmp_path)


def test_a_place_that_holds_no_files_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(UnusableKey, match="cannot be read or created"):
        load_keys(AuthSection(), tmp_path / "file")


def test_a_former_key_moves_into_the_config_as_it_stands(tmp_path: Path) -> None:
    former = load_keys(AuthSection(), tmp_path).signing
    text = (tmp_path / "signing.key").read_text().strip()
    (tmp_path / "signing.key").unlink()

    rotated = load_keys(AuthSection(previous_keys=(text,)), tmp_path).signing

    assert rotated.current_kid != former.current_kid
    assert rotated.by_kid[former.current_kid] == former.current


def test_keys_are_found_by_their_fingerprint() -> None:
    signing = SigningKeys(OWN_KEY.encode(), [OLD_KEY.encode()])

    assert signing.by_kid[fingerprint(OLD_KEY.encode())] == OLD_KEY.encode()
    assert signing.by_kid[signing.current_kid] == OWN_KEY.encode()


def test_no_repr_shows_a_key() -> None:
    signing = SigningKeys(OWN_KEY.encode(), [OLD_KEY.encode()])
    keys = Keys(OWN_KEY.encode(), signing)

    assert repr(signing) == "<SigningKeys>"
    assert repr(keys) == "Keys()"
