"""Words that a host brings: what is wrong with a file is message in a sentence before anybody reads it."""

import logging
from pathlib import Path

import pytest

from regsvc.core.errors import RateLimited
from regsvc.core.i18n import BrokenTranslation, load_translations

FRENCH = """
[message]
approved = "{username} peut jouer."
[refusal]
rate_limited = "Réessayez dans {remainingSeconds} secondes."
[fault.invalid_password]
too_short = "Il faut {minLength} caractères {{au moins}}."
"""


def write(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def test_an_added_language(tmp_path: Path) -> None:
    write(tmp_path, "fr.toml", FRENCH)
    translations = load_translations(tmp_path)
    assert translations.languages == ["en", "fr", "zh"]
    assert translations.refusal(RateLimited(3), "fr") == "Réessayez dans 3 secondes."
    assert translations.text("message.approved", "fr", username="Alice") == "Alice peut jouer."
    assert translations.text("fault.invalid_password.too_short", "fr", minLength=5).endswith("{au moins}.")


def test_missing_texts_are_in_english(tmp_path: Path) -> None:
    write(tmp_path, "fr.toml", FRENCH)
    assert load_translations(tmp_path).text("refusal.username_taken", "fr") == "This name is already taken."


def test_an_empty_language_is_all_english(tmp_path: Path) -> None:
    write(tmp_path, "de.toml", "")
    translations = load_translations(tmp_path)
    assert "de" in translations.languages
    assert translations.text("refusal.username_taken", "de") == "This name is already taken."


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
        ("fr.toml", "[refusal", "it is not TOML"),
        ("fr.toml", b'[refusal]\nusername_taken = "\xe9"', "it is not UTF-8"),
        ("fr.toml", "[refusal]\nusername_taken = 5", "refusal.username_taken must be a text"),
        ("fr.toml", '[refusal]\nusername_taken = ["a"]', "refusal.username_taken must be a text"),
        ("fr.toml", '[message]\napproved = "{user} !"', "{user} is not known in this text; known: {username}"),
        ("fr.toml", '[message]\napproved = "{username.__class__}"', "{username.__class__} is not known"),
        ("fr.toml", '[message]\napproved = "{username!r}"', "{username!r} is not known"),
        ("fr.toml", '[message]\napproved = "{username:>99}"', "{username:>99} is not known"),
        ("fr.toml", '[message]\napproved = "{}"', "{} is not known"),
        ("fr.toml", '[message]\napproved = "{username"', "unbalanced braces"),
        ("fr.toml", '[message]\napproved = "username}"', "unbalanced braces"),
        ("fr.toml", '[refusal]\nusername_taken = "{username}"', "known: none"),
        ("french.toml", FRENCH, "name it after its language"),
        ("fr.v2.toml", FRENCH, "name it after its language"),
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
    write(tmp_path, "fr.toml", '[refusal]\nusername_token = "{what}"\nusername_taken = "Pris."\n')
    with caplog.at_level(logging.WARNING):
        translations = load_translations(tmp_path)
    assert translations.text("refusal.username_taken", "fr") == "Pris."
    assert "keys without effect: refusal.username_token" in caplog.text


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, "README.md", "words")
    (tmp_path / "old.toml").mkdir()
    assert load_translations(tmp_path).languages == ["en", "zh"]
