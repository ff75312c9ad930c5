"""A host without SMTP: the real daemon and commands with a service that is called over HTTP."""

import re
from collections.abc import Callable, Iterator

import pytest

from tests.support.command_line import Finished, companion
from tests.support.daemon import Daemon
from tests.support.peers.mail_service import MailService

MakeDaemon = Callable[..., Daemon]

NO_AUTHME = {"authme": {"enabled": False}}


@pytest.fixture
def resend() -> Iterator[MailService]:
    with MailService("resend") as service:
        yield service


def code_in(mail: dict[str, str]) -> str:
    found = re.search(r"^\s+(\d{6,10})\s*$", mail["text"], re.MULTILINE)
    assert found is not None
    return found[1]


def test_alice_registers(daemon: MakeDaemon, resend: MailService) -> None:
    place = daemon({**NO_AUTHME, "mail": resend.config}).start()
    place.post("/api/verify/send", {"email": "alice@example.org"})
    [mail] = resend.wait_for(1)
    assert mail["to"] == ["alice@example.org"]
    application = {"username": "Alice", "email": "alice@example.org", "password": "alices-secret"}
    assert place.post("/api/register", {**application, "code": code_in(mail)}).status == 201


def test_a_wrong_key_is_told_and_costs_no_mail(daemon: MakeDaemon, resend: MailService) -> None:
    wrong = "key-with-a-typo"
    place = daemon({**NO_AUTHME, "mail": {**resend.config, "http_key": wrong}}).start()
    place.post("/api/verify/send", {"email": "alice@example.org"})
    sentence = "Resend does not let us send (HTTP 403 Forbidden): check mail.http_key"
    assert place.wait_for_log(f"mails cannot be sent at the moment: {sentence}")
    place.stop()
    assert companion("check-config", config=place.config_file).status == 0
    told = companion("mail-test", "host@example.org", config=place.config_file)
    assert (told.status, told.output.startswith(f"not sent: {sentence}")) == (1, True)
    examined = companion("doctor", config=place.config_file)
    assert f"No mail can be sent: {sentence}" in " ".join(examined.output.split())
    said = "\n".join([*place.log, told.output, told.errors, examined.output])
    assert [secret for secret in (wrong, resend.url) if secret in said] == []
    assert resend.mails == []

    place.write_config({**NO_AUTHME, "mail": resend.config})
    place.start()
    [mail] = resend.wait_for(1)
    assert mail["to"] == ["alice@example.org"]


def test_the_doctor_and_mail_test_with_the_right_key(daemon: MakeDaemon, resend: MailService) -> None:
    place = daemon({**NO_AUTHME, "mail": resend.config})
    assert "mail.unusable" not in companion("doctor", "--json", config=place.config_file).output
    assert resend.mails == []
    assert companion("mail-test", "host@example.org", config=place.config_file) == Finished(
        0, "sent to host@example.org\n", ""
    )
    assert [mail["to"] for mail in resend.mails] == [["host@example.org"]]
