"""Findings about the address and the mail settings."""

import itertools
import json

from regsvc.doctor.facts.host import can_listen_on, fetch, find_mail_problem
from tests.support.doctor_case import DoctorCase
from tests.support.peers.smtp import MailServer
from tests.support.ports import free_port


def test_the_port_is_open_to_the_world(doctor_case: DoctorCase) -> None:
    doctor_case.change("server", host="0.0.0.0")
    assert "0.0.0.0" in doctor_case.only_finding("server.plain_http").title
    doctor_case.change("http", trusted_proxies=["172.18.0.2"])
    assert doctor_case.findings() == []


def test_the_port_is_taken_by_another_program(doctor_case: DoctorCase) -> None:
    for answer in (b"<html>It works!</html>", None, b"[1]"):
        doctor_case.change_host(fetch=lambda url, told=answer: told)
        assert "http://127.0.0.1:8080" in doctor_case.only_finding("server.port_taken").title
    ready = {"success": True, "status": "ready", "bridge": "up", "braked": False, "oldestMailSeconds": None}
    for health in (ready, {"success": False, "code": "database_away"}):
        doctor_case.change_host(fetch=lambda url, told=health: json.dumps(told).encode())
        assert doctor_case.findings() == []


def test_the_port_is_that_of_another_installation(doctor_case: DoctorCase) -> None:
    """Its other troubles are none of ours."""
    answers = {
        "/health/ready": {"success": True, "status": "ready", "braked": True, "restartNeeded": ["database.threads"]},
        "/health/alive": {"success": True, "status": "alive", "installation": "0123456789abcdef"},
    }
    doctor_case.change_host(fetch=lambda url: json.dumps(answers[url.removeprefix("http://127.0.0.1:8080")]).encode())
    finding = doctor_case.only_finding("server.other_installation")
    assert (finding.severity, finding.title) == (
        "broken",
        f"The companion at http://127.0.0.1:8080 serves an installation, but there is none in {doctor_case.state_dir}.",
    )
    doctor_case.start_once()
    assert "another installation than the one in" in doctor_case.only_finding("server.other_installation").title


def test_mailed_links_lead_nowhere_or_without_tls(doctor_case: DoctorCase) -> None:
    for base_url in ("", "http://localhost:8080"):
        doctor_case.change("server", base_url=base_url)
        assert "http://" in doctor_case.only_finding("server.no_base_url").title
    doctor_case.change("server", base_url="http://play.example.org")
    assert "http://play.example.org" in doctor_case.only_finding("server.plain_http").title


def test_the_proxy_is_not_trusted(doctor_case: DoctorCase) -> None:
    doctor_case.change("http", trusted_proxies=[])
    for host in ("10.0.0.7", "localhost", "127.0.0.1"):
        doctor_case.change("server", host=host)
        found = {finding.id for finding in doctor_case.findings()}
        assert "server.proxy_not_trusted" in found
        assert found <= {"server.proxy_not_trusted", "server.plain_http"}
    doctor_case.change("http", trusted_proxies=["10.0.0.8"])
    doctor_case.only_finding("server.proxy_not_trusted")
    doctor_case.change("http", trusted_proxies=["127.0.0.1"])
    assert doctor_case.findings() == []


def test_nobody_can_register_or_gets_a_link_without_mail(doctor_case: DoctorCase) -> None:
    doctor_case.sections["mail"] = {"backend": "folder"}
    finding = doctor_case.only_finding("mail.off")
    assert (finding.severity, "written to" in finding.title) == ("risky", True)
    for backend in ("off", "auto"):
        doctor_case.sections["mail"] = {"backend": backend}
        doctor_case.change("registration", open=True)
        assert doctor_case.only_finding("mail.off").severity == "broken"
        doctor_case.change("registration", open=False)
        assert doctor_case.only_finding("mail.off").severity == "risky"
    doctor_case.change("registration", open=True)
    doctor_case.game.change_authme({"Email.mailAccount": "game@example.org", "Email.mailPassword": "s3cret"})
    assert doctor_case.findings() == []


def test_a_captcha_alone_has_its_price(doctor_case: DoctorCase) -> None:
    for backend, approval in itertools.product(("off", "auto"), (True, False)):
        doctor_case.sections["mail"] = {"backend": backend}
        doctor_case.change("registration", methods=["captcha"], approval=approval)
        finding = doctor_case.only_finding("mail.unproven")
        assert finding.severity == "risky"
        assert ("nobody reviews them" in finding.title) is not approval
        assert "companion users password NAME --link" in finding.do


def test_a_mail_server_that_cannot_be_used_is_told_with_the_remedy(doctor_case: DoctorCase) -> None:
    port = free_port()
    doctor_case.change("mail", port=port)
    doctor_case.change_host(find_mail_problem=find_mail_problem)
    finding = doctor_case.only_finding("mail.unusable")
    assert finding.severity == "broken"
    assert finding.title == f"No mail can be sent: nothing listens at 127.0.0.1:{port}: check mail.host and mail.port."


def test_the_doctor_sends_no_mail(doctor_case: DoctorCase, smtp: MailServer) -> None:
    doctor_case.change("mail", port=smtp.port)
    doctor_case.change_host(find_mail_problem=find_mail_problem)
    assert doctor_case.findings() == []
    assert smtp.letters == []


def test_an_address_of_another_machine_is_no_address_to_listen_on(doctor_case: DoctorCase) -> None:
    doctor_case.change_host(can_listen_on=can_listen_on)
    doctor_case.change("http", trusted_proxies=["192.0.2.1"])
    doctor_case.change("server", host="192.0.2.77")
    assert doctor_case.only_finding("server.foreign_host").severity == "broken"
    doctor_case.change("server", host="no-such-host.invalid")  # as RFC 6761 reserves it
    doctor_case.change_host(fetch=fetch)
    finding = doctor_case.only_finding("server.foreign_host")
    assert finding.title == "server.host is no-such-host.invalid, and this name cannot be looked up."
    assert all(can_listen_on(host) for host in ("127.0.0.1", "localhost", "0.0.0.0"))
