"""`companion translations`: what a language lacks, and what is wrong with a host's own files."""

import tomllib
from pathlib import Path

import pytest

from regsvc.core.i18n import OPERATORS_SECTIONS, load_translations, read_built_in_texts, read_texts
from regsvc.notifications.mail.renderer import MAILS, load_mail_templates
from tests.support.command_line import Finished, companion_here

ENGLISH = read_built_in_texts()["en"]
PLAYERS_TEXTS = [key for key in ENGLISH if not key.startswith(OPERATORS_SECTIONS)]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A host's config with a folder for texts and one for mails."""
    for folder in ("texts", "mails"):
        (tmp_path / folder).mkdir()
    file = tmp_path / "companion.toml"
    folders = f'[server]\ntranslations = "{tmp_path}/texts"\n[mail]\ntemplates = "{tmp_path}/mails"\n'
    file.write_text(folders, encoding="utf-8")
    return file


def write(config: Path, name: str, content: str) -> Path:
    file = config.parent / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content, encoding="utf-8")
    return file


def translations(config: Path, *arguments: str) -> Finished:
    return companion_here("translations", *arguments, config=config)


def test_nothing_is_missing_in_what_is_shipped(config: Path) -> None:
    told = translations(config)
    assert told.status == 0
    assert [line.split() for line in told.output.splitlines()] == [
        [language, "complete"] for language in load_translations().languages
    ]
    assert translations(config, "zh", "--all").output == "zh: complete\n"


def test_a_language_that_the_host_does_not_offer_lacks_nothing_that_matters(config: Path) -> None:
    write(config, "texts/nl.toml", "")
    assert translations(config).status == 1
    config.write_text(f'[server]\nlanguages = ["en", "de"]\ntranslations = "{config.parent}/texts"\n', encoding="utf-8")
    told = translations(config)
    assert told.status == 0
    assert "fr     complete (not in server.languages)" in told.output
    assert "de     complete\n" in told.output


def test_a_new_language_starts_with_what_is_printed(config: Path) -> None:
    """The missing texts are printed as they are in a file, and the missing mails by the names of their files."""
    told = translations(config, "nl")
    assert told.status == 1
    assert told.output.startswith(f"# nl: texts missing: {len(PLAYERS_TEXTS)}, mails missing: {len(MAILS)}\n")
    _texts, _title, mails = told.output.replace("\n# ", "\n").partition(
        "Missing mails, for the folder mail.templates:\n"
    )
    file = write(config, "texts/nl.toml", told.output)
    assert read_texts(file) == {key: ENGLISH[key] for key in PLAYERS_TEXTS}
    assert f"Only operators would read another {len(ENGLISH) - len(PLAYERS_TEXTS)} texts" in mails
    for name in mails.partition("\n\n")[0].split():
        write(config, f"mails/{name}", (english_mail(name.split("/")[1])))
    assert translations(config, "nl").status == 0
    assert "nl     complete" in translations(config).output
    assert "nl" in load_mail_templates(config.parent / "mails").languages
    everything = translations(config, "NL", "--all")
    assert everything.status == 1
    assert "[page.admin]" in everything.output


def english_mail(file: str) -> str:
    template = load_mail_templates(None).get(file.removesuffix(".txt"), "en")
    return f"Subject: {template.subject}\n\n{template.text}\n"


def test_every_mistake_is_told_at_once(config: Path) -> None:
    written = """
[message]
approved = "{user} kan spelen."
rejected = "Afgewezen."
banned = "{username"
[refusal]
username_token = "Bezet."
"""
    texts = write(config, "texts/nl.toml", written)
    broken = write(config, "texts/sv.toml", "[message")
    misnamed = write(config, "texts/dutch.toml", "")
    code = write(config, "mails/nl/verification_code.txt", "Subject: Je code\n\nJe krijgt een code.\n")
    write(config, "mails/nl/verification_code.html", "<p>$code, $minutes</p>")
    lonely = write(config, "mails/nl/approved.html", "<p>$username</p>")
    unknown = write(config, "mails/aproved.nl.txt", "Subject: Welkom\n\nWelkom.\n")
    told = translations(config, "nl")
    assert told.status == 1
    assert [line.strip("# ") for line in told.output.split("To correct:\n")[1].split("\n\n")[0].splitlines()] == [
        f"{texts}: message.approved: {{user}} is not known in this text; known: {{username}}",
        f"{texts}: message.rejected: does not use {{username}}",
        f"{texts}: message.banned: unbalanced braces (write {{{{ for a literal brace)",
        f"{texts}: refusal.username_token: this text is not in use",
        f"{unknown}: there is no mail with this name; the names are {', '.join(MAILS)}.",
        f"{code}: does not use $code, $minutes, $server",
        f"{lonely} has no effect without its .txt file",
    ]
    summary = {line.split()[0]: line for line in translations(config).output.splitlines()}
    assert "mistakes: 7" in summary["nl"]
    assert "mistakes: 1" in summary["sv"]
    assert "mistakes: 1" in summary["dutch"]
    assert f"{broken}: it is not TOML" in translations(config, "sv").output
    assert f"{misnamed}: name it after its language" in translations(config, "dutch").output


def test_what_is_not_a_language_is_refused(config: Path) -> None:
    told = translations(config, "../en")
    assert (told.status, told.output) == (2, "")
    assert "../en is not a language" in told.errors


def test_the_printed_texts_are_toml(config: Path) -> None:
    printed = translations(config, "pt-BR").output.split("server.translations:\n")[1].split("\nMissing mails")[0]
    assert tomllib.loads(printed)["message"]["approved"] == ENGLISH["message.approved"]
