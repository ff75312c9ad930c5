"""Secrets in the config: where they may be set, and that nothing shows them."""

from dataclasses import replace
from pathlib import Path

import pytest

from regsvc.config import places
from regsvc.config.key_types import keys_of
from regsvc.config.layers import SECTIONS
from regsvc.config.loader import load_config
from regsvc.config.sections import Config
from tests.support.config_text import Load, loader, problems, write

LONG_KEY = "0123456789abcdef" * 2


@pytest.fixture
def load(tmp_path: Path) -> Load:
    return loader(tmp_path)


def test_a_secret_may_be_in_a_file_of_its_own(tmp_path: Path, load: Load) -> None:
    secret = write(tmp_path / "password", " s3cret \n")
    assert load(f'[mail]\npassword_file = "{secret}"').mail.password == " s3cret "
    keys = write(tmp_path / "keys", f"{LONG_KEY}\n{LONG_KEY[::-1]}\n")
    assert load(f'[auth]\nprevious_keys_file = "{keys}"').auth.previous_keys == (LONG_KEY, LONG_KEY[::-1])


def test_the_environment_may_name_the_secrets_file_and_wins(tmp_path: Path) -> None:
    secret = write(tmp_path / "password", "from the file\n")
    file = write(tmp_path / "companion.toml", '[mail]\npassword = "from the config"\n')
    assert load_config(file, {"COMPANION_MAIL_PASSWORD_FILE": str(secret)}).mail.password == "from the file"


def test_a_missing_secret_is_told_where_it_is_needed(tmp_path: Path, load: Load) -> None:
    config = load(
        """
        [mail]
        backend = "smtp"
        host = "smtp.example.org"
        username = "noreply"
        password_file = "mail"
        [webhook]
        url_file = "hook"
        [auth]
        previous_keys_file = "keys"
        """
    )
    config.require_secrets("database.url", "authme.password")
    expected = problems(lambda: config.require_secrets("mail.password"))
    assert f'[mail] password_file = "mail": there is no file {tmp_path}/mail; write' in expected
    assert len(problems(config.require_secrets).splitlines()) == 3
    assert config.auth.previous_keys == ()
    assert config.webhook.url
    assert config.warnings == ()


def test_a_missing_secret_may_be_set_elsewhere(tmp_path: Path) -> None:
    file = write(tmp_path / "companion.toml", '[mail]\npassword_file = "mail"\n')
    config = load_config(file, {"COMPANION_MAIL_PASSWORD": "from the environment"})
    config.require_secrets()
    assert config.mail.password == "from the environment"


def test_a_credential_of_a_stopped_unit_is_read_from_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only root may do so; others are told, and so is root if it is missing."""
    monkeypatch.setattr(places, "_ETC", tmp_path)
    file = write(
        tmp_path / "companion.toml",
        '[mail]\npassword_file = "/run/credentials/companion.service/secrets_mail_password"\n',
    )
    expected = problems(load_config(file, {}).require_secrets)
    source = f"{tmp_path}/companion/secrets/mail_password"
    assert f"write the secret into {source}, from which systemd makes it" in expected
    (tmp_path / "companion/secrets").mkdir(parents=True)
    write(tmp_path / "companion/secrets/mail_password", "the password")
    assert load_config(file, {}).mail.password == "the password"


def test_only_secrets_have_files(load: Load) -> None:
    assert 'no key "host_file"' in problems(lambda: load('[mail]\nhost_file = "/etc/hostname"'))


@pytest.mark.parametrize(
    "secret", ["changeme", "CHANGE_ME", "change-me-123", "changeme" * 5, "<your password>", "your-token-here"]
)
def test_placeholders_are_refused(load: Load, secret: str) -> None:
    expected = problems(lambda: load(f'[mail]\npassword = "{secret}"'))
    assert "[mail] password: this is a well-known placeholder" in expected
    assert secret not in expected


def test_short_keys_are_refused_without_being_shown(load: Load) -> None:
    expected = problems(
        lambda: load('[auth]\nsigning_key = "hunter2"\nprevious_keys = ["hunter3"]\ninstallation_key = "hunter4"')
    )
    assert expected.count("at least 32 characters") == 3
    assert "hunter" not in expected
    assert load(f'[auth]\nsigning_key = "{LONG_KEY}"').auth.signing_key == LONG_KEY


def test_no_secret_is_shown_by_a_message_or_a_repr() -> None:
    for section, declaring in SECTIONS.items():
        for name, key in keys_of(declaring).items():
            if key.is_secret:
                expected = problems(lambda: load_config(None, {}, {f"{section}.{name}": {"hunter2": "hunter2"}}))  # noqa: B023
                assert f"[{section}] {name}: " in expected
                assert "hunter2" not in expected
                shown = repr(replace(Config(), **{section: replace(getattr(Config(), section), **{name: "hunter2"})}))
                assert "hunter2" not in shown


def test_a_config_that_shows_its_secrets_is_warned_about(tmp_path: Path) -> None:
    text = '[mail]\nhost = "127.0.0.1"\nusername = "a"\npassword = "s3cret"\n[database]\nurl = "sqlite:///var/companion.db"\n'
    file = write(tmp_path / "companion.toml", text, 0o644)
    [warning] = load_config(file, {}).warnings
    assert warning == f"{file} holds mail.password and every user of this machine may read it; run: chmod 600 {file}"
    file.chmod(0o640)
    assert load_config(file, {}).warnings == ()


def test_the_password_of_a_further_game_servers_console_is_a_secret(tmp_path: Path) -> None:
    server = '[[game.server]]\nname = "survival"\nrcon_host = "::1"\n'
    file = write(tmp_path / "companion.toml", f'{server}rcon_password = "s3cret"\n', 0o644)
    [warning] = load_config(file, {}).warnings
    assert warning.startswith(f"{file} holds game.server.1.rcon_password and every user")
    write(file, f'{server}rcon_password_file = "console"\n')
    expected = problems(load_config(file, {}).require_secrets)
    assert f'[[game.server]] #1 rcon_password_file = "console": there is no file {tmp_path}/console' in expected
    write(file, f"{server}rcon_password = {{ s3cret = 1 }}\n")
    assert "s3cret" not in problems(lambda: load_config(file, {}))
    write(file, f"{server}rcon_password = s3cret\n")
    assert "s3cret" not in problems(lambda: load_config(file, {}))


def test_mail_to_the_log_and_unencrypted_passwords_are_warned_about(load: Load) -> None:
    assert "printed to the log" in load('[mail]\nbackend = "log"').warnings[0]
    clear = '[mail]\nbackend = "smtp"\nhost = "mail.test"\nsecurity = "none"\nusername = "a"\npassword = "b"'
    assert "unencrypted" in load(clear).warnings[0]


def test_a_webhook_that_cannot_work_or_shows_its_token_is_warned_about(load: Load) -> None:
    [warning] = load('[webhook]\nurl = "http://127.0.0.1:9000/a-token"').warnings
    assert "webhook.allow_private" in warning
    [warning] = load('[webhook]\nurl = "http://hooks.example.org/a-token"').warnings
    assert "unencrypted" in warning
    assert "a-token" not in warning
