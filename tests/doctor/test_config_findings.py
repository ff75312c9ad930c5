"""Findings about our own config: broken, unsafe, or with unusable files."""

import json
from pathlib import Path

from regsvc.doctor.checkup import in_language
from tests.support.doctor_case import DoctorCase


def test_every_mistake_in_the_config_is_a_finding(doctor_case: DoctorCase) -> None:
    doctor_case.change("server", prot=8080)
    doctor_case.change("sync", every="soon")
    checkup = doctor_case.examine()
    assert [finding.id for finding in checkup.findings] == ["config.broken", "config.broken"]
    assert checkup.findings[0].title.endswith('has no key "prot"; did you mean "port"?')
    assert checkup.not_examined == ("everything that depends on the config: it is broken",)


def test_a_secret_is_missing(doctor_case: DoctorCase) -> None:
    """Everything else is examined as usual."""
    doctor_case.change("metrics", token_file="token")
    finding = doctor_case.only_finding("secrets.missing")
    assert (finding.severity, f"there is no file {doctor_case.directory}" in finding.title) == ("broken", True)


def test_mails_in_the_log_are_unwise(doctor_case: DoctorCase) -> None:
    doctor_case.sections["mail"] = {"backend": "log"}
    finding = doctor_case.only_finding("config.unwise")
    assert (finding.severity, "mail.backend" in finding.title) == ("risky", True)


def test_keys_that_olivia_sets_in_vain_are_one_finding(doctor_case: DoctorCase) -> None:
    doctor_case.change("captcha", length=6)
    doctor_case.change("mail", http_key="k3y")
    finding = doctor_case.only_finding("config.no_effect")
    assert finding.severity == "risky"
    for key in (
        '[captcha] length has no effect: it needs registration.methods with "captcha" or captcha.also_for.',
        '[mail] http_key has no effect: it needs mail.backend = "http".',
    ):
        assert f"{doctor_case.config_file}, line " in finding.title
        assert key in finding.title
    assert "k3y" not in finding.title
    [chinese] = in_language(doctor_case.examine(), "zh").findings
    assert "[mail] http_key 无效：需要 mail.backend = " in chinese.title


def test_a_file_of_the_hosts_own_is_broken(doctor_case: DoctorCase, tmp_path: Path) -> None:
    for section, key, file, text in (
        ("questionnaire", "file", "questions.toml", "[[question]]\nid = 1\n"),
        ("server", "translations", "words/fr.toml", 'refusal.unauthorized = "{nobody}"\n'),
        ("mail", "templates", "mails/approved.en.txt", "no subject\n"),
    ):
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        doctor_case.change(section, **{key: str(path if section == "questionnaire" else path.parent)})
        findings = doctor_case.findings()
        assert {finding.id for finding in findings} == {"config.broken_file"}
        assert path.name in findings[0].title
        doctor_case.sections[section].pop(key)


def test_a_change_waits_for_a_restart(doctor_case: DoctorCase) -> None:
    keys = ["DataSource.mySQLHost", "database.threads"]
    for ready in (
        {"success": True, "status": "ready", "restartNeeded": keys},
        {"success": False, "code": "database_away", "restartNeeded": keys},
    ):
        doctor_case.change_host(fetch=lambda url, told=ready: json.dumps(told).encode())
        finding = doctor_case.only_finding("config.restart_needed")
        assert finding.title == "Changed, and not yet in effect: DataSource.mySQLHost, database.threads."
        assert finding.where.endswith(": systemctl restart companion")
    for nothing in (b'{"success": true, "restartNeeded": []}', b'{"success": true, "restartNeeded": null}'):
        doctor_case.change_host(fetch=lambda url, told=nothing: told)
        assert doctor_case.findings() == []
