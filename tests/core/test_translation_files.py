"""Words that a host brings: what is wrong with a file is message in a sentence before anybody reads it."""

import logging
from pathlib import Path

import pytest

from regsvc.core.errors import RateLimited
from regsvc.core.i18n import BrokenTranslation, load_translations

BUILT_IN = load_translations().languages

DUTCH = """
[message]
approved = "{username} kan spelen."
[refusal]
rate_limited = "Probeer het over {remainingSeconds} seconden opnieuw."
[fault.invalid_password]
too_short = "Gebruik {minLength} tekens {{of meer}}."
"""


def write(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def test_an_added_language(tmp_path: Path) -> None:
    write(tmp_path, "nl.toml", DUTCH)
    translations = load_translations(tmp_path)
    assert translations.languages == sorted([*BUILT_IN, "nl"])
    assert translations.refusal(RateLimited(3), "nl") == "Probeer het over 3 seconden opnieuw."
    assert translations.text("message.approved", "nl", username="Alice") == "Alice kan spelen."
    assert translations.text("fault.invalid_password.too_short", "nl", minLength=5).endswith("{of meer}.")


def test_an_empty_language_is_all_english(tmp_path: Path) -> None:
    write(tmp_path, "nl.toml", "")
    translations = load_translations(tmp_path)
    assert "nl" in translations.languages
    assert translations.text("refusal.username_taken", "nl") == "This name is already taken."


def test_other_texts_for_a_built_in_language(tmp_path: Path) -> None:
    write(tmp_path, "zh.toml", '[refusal]\nusername_taken = "没了"\n')
    translations = load_translations(tmp_path)
    assert translations.text("refusal.username_taken", "zh") == "没了"
    assert translations.text("refusal.email_taken", "zh") == load_translations().text("refusal.email_taken", "zh")


@pytest.mark.parametrize(("name", "language"), [("pt-BR.toml", "pt-br"), ("zh_TW.toml", "zh-tw")])
def test_a_language_of_one_country(tmp_path: Path, name: str, language: str) -> None:
    write(tmp_path, name, '[refusal]\nusername_taken = "!"\n')
    assert load_translations(tmp_path).text("refusal.username_taken", language) == "!"


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("nl.toml", "[refusal", "it is not TOML"),
        ("nl.toml", b'[refusal]\nusername_taken = "\xe9"', "it is not UTF-8"),
        ("nl.toml", "[refusal]\nusername_taken = 5", "refusal.username_taken must be a text"),
        ("nl.toml", '[refusal]\nusername_taken = ["a"]', "refusal.username_taken must be a text"),
        ("nl.toml", '[message]\napproved = "{user} !"', "{user} is not known in this text; known: {username}"),
        ("nl.toml", '[message]\napproved = "{username.__class__}"', "{username.__class__} is not known"),
        ("nl.toml", '[message]\napproved = "{username!r}"', "{username!r} is not known"),
        ("nl.toml", '[message]\napproved = "{username:>99}"', "{username:>99} is not known"),
        ("nl.toml", '[message]\napproved = "{}"', "{} is not known"),
        ("nl.toml", '[message]\napproved = "{username"', "unbalanced braces"),
        ("nl.toml", '[message]\napproved = "username}"', "unbalanced braces"),
        ("nl.toml", '[refusal]\nusername_taken = "{username}"', "known: none"),
        ("nl.toml", f"a = {'[' * 10_000}", "nested too deeply"),
        ("nl.toml", f"{'a.' * 3000}b = 'x'", "too many dots"),
        ("nl.toml", f"a = {'9' * 5000}", "a number is too long"),
        ("dutch.toml", DUTCH, "name it after its language"),
        ("nl.v2.toml", DUTCH, "name it after its language"),
    ],
)
def test_a_broken_file_is_reported_in_a_sentence(tmp_path: Path, name: str, content: str | bytes, why: str) -> None:
    file = write(tmp_path, name, content)
    with pytest.raises(BrokenTranslation) as broken:
        load_translations(tmp_path)
    message = str(broken.value)
    assert message.startswith(f"{file}: ")
    assert message.endswith(".")
    assert why in message


def test_keys_without_effect_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A key of an older version, or a typo: neither prevents the start."""
    write(tmp_path, "nl.toml", '[refusal]\nusername_token = "{what}"\nusername_taken = "Bezet."\n')
    with caplog.at_level(logging.WARNING):
        translations = load_translations(tmp_path)
    assert translations.text("refusal.username_taken", "nl") == "Bezet."
    assert "keys without effect: refusal.username_token" in caplog.text


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, "README.md", "words")
    (tmp_path / "old.toml").mkdir()
    assert load_translations(tmp_path).languages == BUILT_IN
