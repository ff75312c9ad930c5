"""What mails say: every one in every language, nothing unescaped, no secret where it does not belong."""

import re
from datetime import timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default as modern_policy
from pathlib import Path

import pytest
from peewee import Database

from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.database.models import Link, User
from regsvc.notifications.mail.mails import MailQueue
from regsvc.notifications.mail.renderer import NothingToSend, RenderedMail
from regsvc.notifications.mail.templates import MAILS, BrokenTemplate, load_mail_templates
from tests.support.database_fixtures import MakeUser
from tests.support.mail_parts import ALICE, PostOffice
from tests.support.manual_clock import StandingClock

LANGUAGES = ("en", "zh")


@pytest.fixture
def office(our_database: Database, clock: StandingClock) -> PostOffice:
    return PostOffice(our_database, clock)


@pytest.fixture
def evil_bob(make_user: MakeUser) -> User:
    """Would break every text that trusts him."""
    return make_user("<b>Bob</b>\r\nBcc: x@example.com\u202e", email="bob@example.org")


def render(office: PostOffice) -> RenderedMail:
    [mail] = office.outbox.claim_due(1)
    return office.renderer.render(mail)


def as_received(rendered: RenderedMail) -> EmailMessage:
    return message_from_bytes(rendered.message.as_bytes(), policy=modern_policy)


def text_of(message: EmailMessage) -> str:
    part = message.get_body(("plain",))
    assert part is not None
    return str(part.get_content())


def html_of(message: EmailMessage) -> str:
    part = message.get_body(("html",))
    assert part is not None
    return str(part.get_content())


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", MAILS)
def test_every_mail_can_be_written_in_every_language(office: PostOffice, name: str, language: str) -> None:
    values = {value: f"the-{value}" for value in MAILS[name]}
    message = office.renderer.compose(name, ALICE, language, values)
    text, html = text_of(message), html_of(message)
    assert "Example Craft" in str(message["Account"])
    for value in values.values():
        assert value in text
        assert value in html
    assert "$" not in text + html + str(message["Account"])
    assert f'<html lang="{language}">' in html


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", MAILS)
def test_every_language_has_a_text_and_a_picture_of_its_own(name: str, language: str) -> None:
    template = load_mail_templates(None).get(name, language)
    assert template.language == language
    assert template.html is not None


@pytest.mark.parametrize("name", MAILS)
def test_every_mail_has_its_function(name: str) -> None:
    base = {"approved_set_password": "approved"}.get(name, name)
    assert name == "mail_test" or hasattr(MailQueue, f"send_{base}")


def test_a_code_stands_in_text_and_html_but_not_in_the_subject(office: PostOffice) -> None:
    code = office.ask_for_code()
    rendered = render(office)
    message = as_received(rendered)
    assert re.findall(r"\b\d{6}\b", text_of(message)) == [code]
    assert re.findall(r"\b\d{6}\b", html_of(message)) == [code]
    assert "5 minutes" in text_of(message)
    assert code not in str(message["Account"])


def test_its_headers_say_who_to_whom_when_and_that_a_machine_wrote(office: PostOffice, clock: StandingClock) -> None:
    office.ask_for_code()
    message = as_received(render(office))
    assert message["From"] == "Example Craft <companion@example.org>"
    assert message["To"] == "Alice@example.org"
    assert message["Date"].datetime == clock().replace(microsecond=0)
    assert message["Auto-Submitted"] == "auto-generated"
    assert message.get_content_type() == "multipart/alternative"


def test_a_second_attempt_has_the_same_message_id(office: PostOffice, clock: StandingClock) -> None:
    office.ask_for_code()
    first = render(office)
    clock.advance(minutes=4)
    second = render(office)
    assert first.message["Message-ID"] == second.message["Message-ID"]
    assert first.message["Message-ID"].endswith("@example.org>")


@pytest.mark.parametrize(
    ("language", "word"), [("zh", "验证码"), ("zh-CN", "验证码"), ("fr", "code"), ("../../x", "code")]
)
def test_it_is_written_in_a_language_there_is(office: PostOffice, language: str, word: str) -> None:
    office.ask_for_code(language=language)
    assert word in text_of(as_received(render(office)))


@pytest.mark.parametrize("transition", ["rejected", "banned", "unbanned"])
def test_nothing_anybody_wrote_breaks_out(office: PostOffice, evil_bob: User, transition: str) -> None:
    review_id = office.review(evil_bob, "ban", "no <script>alert(1)</script>\r\n$code & \u2028so on")
    getattr(office.mails, f"send_{transition}")(evil_bob, review_id)
    message = as_received(render(office))
    assert message["Bcc"] is None
    assert message["To"] == "bob@example.org"
    assert "\n" not in str(message["Account"])
    assert "<b>" not in html_of(message)
    assert "<script>" not in html_of(message)
    assert "&lt;script&gt;" in html_of(message)
    assert "$code & so on" in text_of(message)
    assert "\u202e" not in text_of(message) + html_of(message)


def test_a_name_in_the_subject_stays_on_its_line(office: PostOffice, evil_bob: User) -> None:
    office.mails.send_approved(evil_bob, office.review(evil_bob, "approve"), needs_password=False)
    message = as_received(render(office))
    assert message["Bcc"] is None
    assert "<b>Bob</b> Bcc: x@example.com" in str(message["Account"])


def test_a_decision_brings_its_reason(office: PostOffice, alice: User) -> None:
    office.mails.send_rejected(alice, office.review(alice, "reject", "Please choose another name."))
    message = as_received(render(office))
    assert "Please choose another name." in text_of(message)
    assert "Please choose another name." in html_of(message)


def test_a_line_without_a_value_is_left_out(office: PostOffice, alice: User, clock: StandingClock) -> None:
    office.mails.send_banned(alice, office.review(alice, "ban"))
    for_good = as_received(render(office))
    assert "None" not in text_of(for_good) + html_of(for_good)
    assert "ends on" not in text_of(for_good)
    ends_at = clock() + timedelta(days=3)
    office.mails.send_banned(alice, office.review(alice, "ban", ban_expires_at=ends_at))
    clock.advance(minutes=5)
    [first] = office.outbox.claim_due(1)
    office.outbox.mark_sent(first.id)
    assert "ends on 2031-05-07 12:00 UTC" in text_of(as_received(render(office)))


def test_a_decision_is_told_even_if_its_user_is_gone(office: PostOffice, alice: User) -> None:
    office.mails.send_rejected(alice, office.review(alice, "reject"))
    alice.delete_instance()
    assert "Alice" in text_of(as_received(render(office)))


def test_a_link_opens_the_page_and_carries_its_token_behind_the_hash(office: PostOffice, alice: User) -> None:
    office.mails.send_reset_password(ALICE, "en", alice.id)
    rendered = render(office)
    message = as_received(rendered)
    [address] = re.findall(r"https://\S+", text_of(message))
    page, token = address.split("#token=")
    assert page == "https://play.example.org/set-password"
    assert f'href="{address}"' in html_of(message)
    assert office.links.redeem(token).user == alice
    assert rendered.secrets == (token,)


def test_the_welcome_of_who_has_no_password_brings_a_link_for_a_week(
    office: PostOffice, alice: User, clock: StandingClock
) -> None:
    office.mails.send_approved(alice, office.review(alice, "approve", "Welcome aboard."), needs_password=True)
    message = as_received(render(office))
    assert "Welcome aboard." in text_of(message)
    [token] = re.findall(r"#token=(\S+)", text_of(message))
    clock.advance(days=6)
    assert office.links.redeem(token).purpose == "first_password"


def test_a_second_attempt_brings_the_same_link_while_it_lives(
    office: PostOffice, alice: User, clock: StandingClock
) -> None:
    office.mails.send_password_link(alice)
    first = render(office)
    clock.advance(minutes=5)
    assert render(office).secrets == first.secrets
    clock.advance(minutes=30)
    fresh = render(office)
    assert fresh.secrets != first.secrets
    assert office.links.find(fresh.secrets[0]) is not None


def test_a_link_that_was_used_is_not_mailed_again(office: PostOffice, alice: User, clock: StandingClock) -> None:
    office.mails.send_password_link(alice)
    office.links.redeem(render(office).secrets[0])
    clock.advance(minutes=5)
    with pytest.raises(NothingToSend):
        render(office)


def test_nobody_gets_nothing(office: PostOffice) -> None:
    office.mails.send_reset_password(ALICE, "en", None)
    with pytest.raises(NothingToSend):
        render(office)
    assert Link.select().count() == 0


def test_an_expired_code_is_not_mailed(office: PostOffice, clock: StandingClock) -> None:
    office.ask_for_code()
    clock.advance(minutes=15)
    with pytest.raises(NothingToSend):
        render(office)


def test_a_mail_that_is_looked_at_shows_no_secret(office: PostOffice, alice: User) -> None:
    code = office.ask_for_code()
    rendered = render(office)
    assert code not in repr(rendered)
    assert rendered.censor(f"554 we do not like {code}!") == "554 we do not like …!"


@pytest.mark.parametrize(
    "recipient", ["爱丽丝@例子.中国", '"A, b"@example.org', r'"a\"\\b"@example.org', "alice@bücher.example"]
)
def test_addresses_of_all_kinds_stand_in_the_header(office: PostOffice, recipient: str) -> None:
    address: EmailAddress = parse_email(recipient)
    message = office.renderer.compose("mail_test", address, "en", {})
    assert [to.addr_spec for to in message["To"].addresses] == [address.envelope]


def test_a_host_writes_his_own_words(our_database: Database, clock: StandingClock, tmp_path: Path) -> None:
    (tmp_path / "verification_code.en.txt").write_text("Account: Ahoy!\n\nThe word is $code, ye have $minutes.\n")
    (tmp_path / "verification_code.fr.txt").write_text("Account: Bonjour\n\nVotre code : $code\n", encoding="utf-8")
    (tmp_path / "README").write_text("not a mail")
    office = PostOffice(our_database, clock, tmp_path)
    code = office.ask_for_code()
    message = as_received(render(office))
    assert message["Account"] == "Ahoy!"
    assert message.get_content() == f"The word is {code}, ye have 5.\r\n"
    assert load_mail_templates(tmp_path).languages == ["en", "fr", "zh"]
    french = office.renderer.compose("verification_code", ALICE, "fr", {"code": "123456", "minutes": "5"})
    assert french["Account"] == "Bonjour"


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("approved.en.txt", "Hello", "first line"),
        ("approved.en.txt", "Account: Hi\n\nYour $code", r"\$code is unknown here"),
        ("approved.en.txt", "Account: $reward\n\nHello", r"\$reward is unknown here"),
        ("approved.en.txt", "Account: Hi\n\n100 $ for you", "a lone \\$"),
        ("aproved.en.txt", "Account: Hi\n\nHello", "no mail is called that"),
    ],
)
def test_broken_words_are_noticed_when_they_are_read(tmp_path: Path, file: str, text: str, complaint: str) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(BrokenTemplate, match=complaint):
        load_mail_templates(tmp_path)


def test_words_that_are_not_utf8_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "approved.en.txt").write_bytes(b"Account: \xff\n\n")
    with pytest.raises(BrokenTemplate, match="not UTF-8"):
        load_mail_templates(tmp_path)
