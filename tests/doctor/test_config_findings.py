"""Our own config: broken, unwise, or naming files that cannot be used."""

from pathlib import Path

import pytest

from tests.support.doctor_case import Clinic


def test_every_mistake_in_the_config_is_a_finding(clinic: Clinic) -> None:
    clinic.change("server", prot=8080)
    clinic.change("sync", every="soon")
    checkup = clinic.examine()
    assert [finding.id for finding in checkup.findings] == ["config.broken", "config.broken"]
    assert checkup.findings[0].title.endswith('has no key "prot"; did you mean "port"?')
    assert checkup.not_examined == ("everything that the config tells of: it is broken",)


def test_mails_in_the_log_are_unwise(clinic: Clinic) -> None:
    clinic.sections["mail"] = {"backend": "log"}
    finding = clinic.only_finding("config.unwise")
    assert (finding.severity, "mail.backend" in finding.title) == ("risky", True)


@pytest.mark.parametrize(
    ("section", "key", "file", "text"),
    [
        ("questionnaire", "file", "questions.toml", "[[question]]\nid = 1\n"),
        ("server", "translations", "words/fr.toml", 'refusal.unauthorized = "{nobody}"\n'),
        ("mail", "templates", "mails/approved.en.txt", "no subject\n"),
    ],
    ids=["questionnaire", "translation", "mail"],
)
def test_a_file_of_the_hosts_own_is_broken(
    clinic: Clinic, tmp_path: Path, section: str, key: str, file: str, text: str
) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    clinic.change(section, **{key: str(path if section == "questionnaire" else path.parent)})
    findings = clinic.findings()
    assert {finding.id for finding in findings} == {"config.broken_file"}
    assert path.name in findings[0].title
