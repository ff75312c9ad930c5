"""Where the companion listens, and whether mails get out."""

import json

import pytest

from tests.support.doctor_case import Clinic


def test_the_port_is_open_to_the_world(clinic: Clinic) -> None:
    clinic.change("server", host="0.0.0.0")
    assert "0.0.0.0" in clinic.only_finding("server.exposed").title
    clinic.change("http", trusted_proxies=["172.18.0.2"])
    assert clinic.findings() == []


@pytest.mark.parametrize("answer", [b"<html>It works!</html>", None, b"[1]"], ids=["a web server", "junk", "JSON"])
def test_the_port_is_taken(clinic: Clinic, answer: bytes | None) -> None:
    clinic.change_machine(fetch=lambda url: answer)
    assert "http://127.0.0.1:8080" in clinic.only_finding("server.port_taken").title


def test_a_companion_that_runs_is_none_of_these(clinic: Clinic) -> None:
    ready = {"success": True, "status": "ready", "bridge": "up", "braked": False, "oldestMailSeconds": None}
    for vitals in (ready, {"success": False, "code": "database_away"}):
        clinic.change_machine(fetch=lambda url, told=vitals: json.dumps(told).encode())
        assert clinic.findings() == []


@pytest.mark.parametrize("base_url", ["", "http://localhost:8080"])
def test_mailed_links_lead_nowhere(clinic: Clinic, base_url: str) -> None:
    clinic.change("server", base_url=base_url)
    assert "http://" in clinic.only_finding("server.no_base_url").title


def test_players_come_without_tls(clinic: Clinic) -> None:
    clinic.change("server", base_url="http://play.example.org")
    assert "http://play.example.org" in clinic.only_finding("server.plain_http").title


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "10.0.0.7"])
def test_the_proxy_is_not_trusted(clinic: Clinic, host: str) -> None:
    clinic.change("server", host=host)
    clinic.change("http", trusted_proxies=[])
    found = {finding.id for finding in clinic.findings()}
    assert "server.proxy_not_trusted" in found
    assert found <= {"server.proxy_not_trusted", "server.exposed"}


def test_the_proxy_is_another_one(clinic: Clinic) -> None:
    clinic.change("http", trusted_proxies=["10.0.0.8"])
    clinic.only_finding("server.proxy_not_trusted")
    clinic.change("http", trusted_proxies=["127.0.0.1"])
    assert clinic.findings() == []


@pytest.mark.parametrize("mail", [{"backend": "off"}, {"backend": "auto"}])
def test_nobody_can_register_without_mail(clinic: Clinic, mail: dict[str, str]) -> None:
    clinic.sections["mail"] = mail
    assert clinic.only_finding("mail.off").severity == "broken"


def test_authmes_own_mail_account_will_do(clinic: Clinic) -> None:
    clinic.sections["mail"] = {"backend": "auto"}
    clinic.game.change_authme({"Email.mailAccount": "game@example.org", "Email.mailPassword": "s3cret"})
    assert clinic.findings() == []


def test_nobody_gets_a_link_without_mail(clinic: Clinic) -> None:
    clinic.sections["mail"] = {"backend": "off"}
    clinic.change("registration", open=False)
    assert clinic.only_finding("mail.no_links").severity == "risky"


def test_mails_stay_in_a_folder(clinic: Clinic) -> None:
    clinic.sections["mail"] = {"backend": "folder"}
    clinic.only_finding("mail.folder")
