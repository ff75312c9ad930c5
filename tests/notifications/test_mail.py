"""Contents of mails: every one in every language, nothing unescaped, no secret where it does not belong."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.policy import default as modern_policy
from email.utils import getaddresses
from html import escape
from pathlib import Path

import pytest
from peewee import Database

from regsvc.config.host_style import DARK, LIGHT, THEMES
from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.core.i18n import Translated
from regsvc.database.models import OutboxEntry, User, Verification
from regsvc.notifications.delivery import Drop
from regsvc.notifications.mail.backends import SmtpAccount, SmtpBackend
from regsvc.notifications.mail.queue import UserMail
from regsvc.notifications.mail.renderer import MAILS, BrokenTemplate, RenderedMail, load_mail_templates
from regsvc.web.pages import PAGE_TABLE
from tests.support.database_fixtures import MakeUser
from tests.support.each import assert_each
from tests.support.mail_parts import ALICE, CALLER, MailHarness
from tests.support.manual_clock import ManualClock
from tests.support.peers.smtp import MailServer

pytestmark = pytest.mark.one_database("sqlite")

LANGUAGES = ("en", "zh")
WITHOUT_GAME = set(MAILS) - {
    *("approved", "approved_set_password", "unbanned", "unbanned_set_password", "ban_ended", "ban_ended_set_password")
}
WITH_TOKEN = {"asked", "received", "approved_set_password", "reset_password", "password_link"}
CODES = {"verification_code", "unlink_code"}
HEADERS = {"Subject", "From", "To", "Date", "Message-ID", "Auto-Submitted", "Content-Type", "MIME-Version"}


@pytest.fixture
def mail_harness(our_database: Database, clock: ManualClock) -> MailHarness:
    return MailHarness(our_database, clock)


@pytest.fixture
def evil_bob(make_user: MakeUser) -> User:
    """Has a name that would break every text that trusts it."""
    return make_user("<b>Bob</b>\r\nBcc: x@example.com\u202e", email="bob@example.org")


def render(mail_harness: MailHarness) -> RenderedMail:
    [mail] = mail_harness.outbox.claim_due(1)
    return mail_harness.renderer.render(mail)


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
def test_every_mail_can_be_written_in_every_language(mail_harness: MailHarness, language: str) -> None:
    def check(name: str) -> None:
        values = {value: f"the-{value}" for value in MAILS[name]} | {"game": "play.example.org"}
        if name in WITHOUT_GAME:
            del values["game"]
        message = mail_harness.renderer.compose(name, ALICE, language, values)
        text, html = text_of(message), html_of(message)
        assert "Example Craft" in str(message["Subject"])
        assert not set(message.keys()) - HEADERS
        for value in values.values():
            assert value in text
            assert value in html
        assert "$" not in text + html + str(message["Subject"])
        assert f'<html lang="{language}" dir="ltr">' in html

    assert_each(MAILS, check)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_mail_has_one_button(mail_harness: MailHarness, language: str) -> None:
    """A code is typed on the page that asked for it, which is open."""

    def check(name: str) -> None:
        values: dict[str, str | None] = dict.fromkeys(MAILS[name], "x")
        if name in WITH_TOKEN:
            values["link"] = "https://play.example.org/set-password#token=x"
        message = mail_harness.renderer.compose(name, ALICE, language, values)
        [address] = re.findall(r"https://\S+", text_of(message))
        assert re.findall(r'href="([^"]*)"', html_of(message)) == [address]

    assert_each(sorted(set(MAILS) - CODES), check)


def test_without_an_address_of_the_game_none_is_mentioned(our_database: Database, clock: ManualClock) -> None:
    def check(name: str) -> None:
        mail_harness = MailHarness(our_database, clock, game_address="")
        message = mail_harness.renderer.compose(name, ALICE, "en", dict.fromkeys(MAILS[name], "x"))
        assert "None" not in text_of(message) + html_of(message)
        assert "Server address" not in text_of(message) + html_of(message)

    assert_each(MAILS, check)


@pytest.mark.parametrize(("has_own_pages", "how_to_join"), [(True, "/server"), (False, "/")])
def test_mails_lead_to_pages_that_exist(
    our_database: Database, clock: ManualClock, has_own_pages: bool, how_to_join: str
) -> None:
    """Also where a host's front end takes the place of most of ours: there they lead to its home page."""
    mail_harness = MailHarness(our_database, clock, has_own_pages=has_own_pages)
    pages = {page.path for page in PAGE_TABLE if has_own_pages or page.is_mailed} | {"/"}

    def page_of(name: str) -> str:
        message = mail_harness.renderer.compose(name, ALICE, "en", dict.fromkeys(MAILS[name], "x"))
        paths = re.findall(r"https://play\.example\.org(/[^\s#]*)", text_of(message))
        assert len(paths) == 1
        assert paths[0] in pages
        return str(paths[0])

    assert_each(sorted(set(MAILS) - CODES - WITH_TOKEN), page_of)
    assert (page_of("approved"), page_of("already_registered")) == (how_to_join, "/forgot-password")


def test_a_rejection_says_when_the_name_is_free_again(
    mail_harness: MailHarness, alice: User, clock: ManualClock
) -> None:
    mail_harness.mail_queue.send(alice, "rejected", mail_harness.review(alice, "reject", status_after="rejected"))
    soon = text_of(as_received(render(mail_harness)))
    assert "You can apply again from 5 May, 12:00 (UTC)." in soon
    clock.advance(hours=24)
    late = text_of(as_received(render(mail_harness)))
    assert "from" not in late
    assert "right away, also under the name Alice." in late
    assert "Apply again: https://play.example.org/register" in late


@pytest.mark.parametrize("contact", ["mods@example.org", "https://discord.gg/ex?a=1&b=2", "#help <on> our Discord", ""])
def test_a_banned_player_learns_whom_to_ask(mail_harness: MailHarness, alice: User, contact: str) -> None:
    mail_harness.server = replace(mail_harness.server, contact=contact)
    mail_harness.mail_queue.send(alice, "banned", mail_harness.review(alice, "ban", status_after="banned"))
    message = as_received(render(mail_harness))
    assert ("You can reach them here: " in text_of(message)) == bool(contact)
    assert contact in text_of(message)
    assert escape(contact) in html_of(message)
    addresses = {"mods@example.org": "mailto:mods@example.org", "https://discord.gg/ex?a=1&b=2": contact}
    assert (f'href="{escape(addresses.get(contact, "-"))}"' in html_of(message)) == (contact in addresses)
    assert message["Reply-To"] == ("mods@example.org" if contact == "mods@example.org" else None)


def test_without_a_contact_the_hosts_chat_is_it(mail_harness: MailHarness, alice: User) -> None:
    links = Translated({"": {"Map": "https://map.example.org", "Discord": "https://discord.gg/ex"}})
    mail_harness.server = replace(mail_harness.server, links=links)
    mail_harness.mail_queue.send(alice, "banned", mail_harness.review(alice, "ban", status_after="banned"))
    assert "You can reach them here: https://discord.gg/ex" in text_of(as_received(render(mail_harness)))


@pytest.mark.parametrize("language", ["en", "de", "fr", "zh"])
def test_a_code_is_in_subject_and_text_and_nowhere_a_server_can_repeat_it(
    mail_harness: MailHarness, language: str
) -> None:
    code = mail_harness.ask_for_code(language=language)
    rendered = render(mail_harness)
    for header in (str(as_received(rendered)["Subject"]), rendered.message["Subject"].fold(policy=modern_policy)):
        censored = rendered.censor(f"554 spam: {header}")
        assert code not in censored
        assert "=?" not in censored  # nor encoded, as base64 is as good as plain text
    assert str(as_received(rendered)["Subject"]).startswith(f"{code} ")


def test_a_code_stands_once_in_text_and_html(mail_harness: MailHarness) -> None:
    code = mail_harness.ask_for_code()
    rendered = render(mail_harness)
    message = as_received(rendered)
    assert re.findall(r"\b\d{6}\b", text_of(message)) == [code]
    assert re.findall(r"\b\d{6}\b", html_of(message)) == [code]
    assert "5 minutes" in text_of(message)


def test_its_headers_say_who_to_whom_when_and_that_a_machine_wrote(
    mail_harness: MailHarness, clock: ManualClock
) -> None:
    mail_harness.ask_for_code()
    message = as_received(render(mail_harness))
    assert message["From"] == "Example Craft <companion@example.org>"
    assert message["To"] == "Alice@example.org"
    assert message["Date"].datetime == clock().replace(microsecond=0)
    assert message["Auto-Submitted"] == "auto-generated"
    assert message.get_content_type() == "multipart/alternative"


def test_a_second_attempt_has_the_same_message_id(mail_harness: MailHarness, clock: ManualClock) -> None:
    mail_harness.ask_for_code()
    first = render(mail_harness)
    clock.advance(minutes=4)
    second = render(mail_harness)
    assert first.message["Message-ID"] == second.message["Message-ID"]
    assert first.message["Message-ID"].endswith("@example.org>")


@pytest.mark.parametrize(
    ("language", "word"),
    [("zh", "验证码"), ("zh-CN", "验证码"), ("de-AT", "Bestätigungscode"), ("tlh", "code"), ("../../x", "code")],
)
def test_it_is_written_in_a_language_there_is(mail_harness: MailHarness, language: str, word: str) -> None:
    mail_harness.ask_for_code(language=language)
    assert word in text_of(as_received(render(mail_harness)))


UNTIL: Mapping[str, str] = {
    "en": "Your membership lasts until",
    "de": "Deine Mitgliedschaft gilt bis",
    "fr": "Ton adhésion est valable jusqu’au",
    "zh": "你的成员资格有效期至",
}


@pytest.mark.parametrize("mail", ["approved", "approved_set_password"])
def test_an_approval_states_the_end_where_there_is_one(mail_harness: MailHarness, alice: User, mail: UserMail) -> None:
    for language, words in UNTIL.items():
        for until in (None, mail_harness.clock() + timedelta(days=30)):
            alice.language = language
            User.update(member_until=until).where(User.id == alice.id).execute()
            mail_harness.mail_queue.send(alice, mail, mail_harness.review(alice, "approve", None))
            told = as_received(render(mail_harness))
            assert (words in text_of(told), words in html_of(told)) == (until is not None,) * 2, language
            OutboxEntry.delete().execute()


@pytest.mark.parametrize("transition", ["rejected", "banned", "unbanned"])
def test_nothing_anybody_wrote_breaks_out(mail_harness: MailHarness, evil_bob: User, transition: UserMail) -> None:
    review_id = mail_harness.review(evil_bob, "ban", "no <script>alert(1)</script>\r\n$code & \u2028so on")
    mail_harness.mail_queue.send(evil_bob, transition, review_id)
    message = as_received(render(mail_harness))
    assert message["Bcc"] is None
    assert message["To"] == "bob@example.org"
    assert "\n" not in str(message["Subject"])
    assert "<b>" not in html_of(message)
    assert "<script>" not in html_of(message)
    assert "&lt;script&gt;" in html_of(message)
    assert "$code & so on" in text_of(message)
    assert "\u202e" not in text_of(message) + html_of(message)


def test_only_the_template_decides_where_a_mail_leads(mail_harness: MailHarness, alice: User) -> None:
    """R34: a reason may look like the text of a mail, but makes no button, link or quote of its own."""
    reason = "Sorry.\n\nApply here: $link\n\n    $code\n\nhttps://evil.example.net/?a&b"
    mail_harness.mail_queue.send(alice, "rejected", mail_harness.review(alice, "reject", reason))
    html = html_of(as_received(render(mail_harness)))
    assert re.findall(r'href="([^"]*)"', html) == ["https://play.example.org/register"]
    assert html.count("<blockquote") == 1
    assert (
        "Sorry.<br><br>Apply here: $link<br><br>    $code<br><br>https://evil.example.net/?a&amp;b</blockquote>" in html
    )


def test_a_mail_looks_like_its_server(mail_harness: MailHarness) -> None:
    """Its colours and its logo are those of the config at this moment: a reload changes them."""
    plain = html_of(mail_harness.renderer.compose("mail_test", ALICE, "en", {}))
    assert "<img" not in plain
    assert "background:#2f6f4f" in plain
    mail_harness.server = replace(
        mail_harness.server, name='<Wild> & "Free"', accent="#ffcc00", logo_url='/files/logo.png?"><script>'
    )
    html = html_of(mail_harness.renderer.compose("mail_test", ALICE, "en", {}))
    assert "background:#856a00" in html
    assert "background: #ffcc00 !important" in html.partition("prefers-color-scheme: dark")[2]
    assert '<img src="https://play.example.org/files/logo.png?&quot;&gt;&lt;script&gt;"' in html
    assert "&lt;Wild&gt; &amp; &quot;Free&quot;" in html
    assert not re.search(r"<Wild|<script", html)


def test_the_layout_has_the_colours_of_the_pages(mail_harness: MailHarness) -> None:
    html = html_of(mail_harness.renderer.compose("received", ALICE, "en", {"username": "Alice", "link": "https://x"}))
    light, dark = html[html.index("</style>") :], html[: html.index("</style>")]
    assert set(re.findall(r"#[0-9a-f]{6}", light)) <= {*LIGHT.values(), THEMES["default"].light}
    assert set(re.findall(r"#[0-9a-f]{6}", dark)) <= {*DARK.values(), THEMES["default"].dark}
    assert "color-scheme: light dark" in dark


def test_a_line_without_a_value_is_left_out(mail_harness: MailHarness, alice: User, clock: ManualClock) -> None:
    mail_harness.mail_queue.send(alice, "banned", mail_harness.review(alice, "ban"))
    for_good = as_received(render(mail_harness))
    assert "None" not in text_of(for_good) + html_of(for_good)
    assert "ends on" not in text_of(for_good)
    assert "\r\n\r\n\r\n" not in text_of(for_good)
    ends_at = clock() + timedelta(days=3)
    mail_harness.mail_queue.send(alice, "banned", mail_harness.review(alice, "ban", ban_expires_at=ends_at))
    clock.advance(minutes=5)
    [first] = mail_harness.outbox.claim_due(1)
    mail_harness.outbox.record_sent(first)
    assert "ends on 7 May, 12:00 (UTC)" in text_of(as_received(render(mail_harness)))


def test_a_decision_is_told_even_if_its_user_is_gone(mail_harness: MailHarness, alice: User) -> None:
    mail_harness.mail_queue.send(alice, "rejected", mail_harness.review(alice, "reject", status_after="rejected"))
    alice.delete_instance()
    assert "Alice" in text_of(as_received(render(mail_harness)))


def test_a_link_opens_the_page_and_carries_its_token_behind_the_hash(mail_harness: MailHarness, alice: User) -> None:
    mail_harness.mail_queue.send_to(ALICE, "en", "reset_password", user_id=alice.id)
    rendered = render(mail_harness)
    message = as_received(rendered)
    [address] = re.findall(r"https://\S+", text_of(message))
    page, token = address.split("#token=")
    assert page == "https://play.example.org/set-password"
    assert f'href="{address}"' in html_of(message)
    assert mail_harness.links.redeem(token).user == alice
    assert rendered.secrets == (token,)


def test_the_welcome_of_who_has_no_password_brings_a_link_for_a_week(
    mail_harness: MailHarness, alice: User, clock: ManualClock
) -> None:
    mail_harness.mail_queue.send(
        alice, "approved_set_password", mail_harness.review(alice, "approve", "Welcome aboard.")
    )
    message = as_received(render(mail_harness))
    assert "Welcome aboard." in text_of(message)
    [token] = re.findall(r"#token=(\S+)", text_of(message))
    clock.advance(days=6)
    assert mail_harness.links.redeem(token).purpose == "first_password"


def test_a_second_attempt_brings_the_same_link_while_it_lives(
    mail_harness: MailHarness, alice: User, clock: ManualClock
) -> None:
    mail_harness.mail_queue.send(alice, "password_link")
    first = render(mail_harness)
    clock.advance(minutes=5)
    assert render(mail_harness).secrets == first.secrets
    clock.advance(minutes=30)
    fresh = render(mail_harness)
    assert fresh.secrets != first.secrets
    assert mail_harness.links.find(fresh.secrets[0]) is not None


def test_a_link_that_was_used_is_not_mailed_again(mail_harness: MailHarness, alice: User, clock: ManualClock) -> None:
    mail_harness.mail_queue.send(alice, "password_link")
    mail_harness.links.redeem(render(mail_harness).secrets[0])
    clock.advance(minutes=5)
    with pytest.raises(Drop):
        render(mail_harness)


def test_an_expired_code_is_not_mailed(mail_harness: MailHarness, clock: ManualClock) -> None:
    mail_harness.ask_for_code()
    clock.advance(minutes=15)
    with pytest.raises(Drop):
        render(mail_harness)


def test_a_code_for_nobody_lives_as_long_as_one_that_is_mailed(mail_harness: MailHarness, clock: ManualClock) -> None:
    row_id = mail_harness.codes.issue(ALICE.key, "unlink", CALLER)
    mail_harness.mail_queue.send_to(ALICE, "en", "unlink_code", verification_id=row_id)
    clock.advance(minutes=1)
    with pytest.raises(Drop):
        render(mail_harness)
    assert Verification.get_by_id(row_id).handed_over_at == clock()


def test_a_mail_that_is_looked_at_shows_no_secret(mail_harness: MailHarness, alice: User) -> None:
    code = mail_harness.ask_for_code()
    rendered = render(mail_harness)
    assert code not in repr(rendered)
    assert rendered.censor(f"554 we do not like {code}!") == "554 we do not like …!"


@pytest.mark.parametrize(
    "recipient", ["爱丽丝@例子.中国", '"A, b"@example.org', r'"a\"\\b"@example.org', "alice@bücher.example"]
)
def test_addresses_of_all_kinds_stand_in_the_header(mail_harness: MailHarness, recipient: str) -> None:
    address: EmailAddress = parse_email(recipient)
    message = mail_harness.renderer.compose("mail_test", address, "en", {})
    assert [to.addr_spec for to in message["To"].addresses] == [address.envelope]


NAMES = [
    "Survival, hard",
    'Craft: the "best"',
    "A (new) world",
    "play@example.org",
    "<b>",
    "back\\slash",
    "semi; [MC] #1.",
    "It's ours",
    '"',
    "Ünïcödé, e.g.",
    "服务器",
    "😀 fun",
]
LONG = [name + ", with a name that is longer than one line of a header can be" * 2 for name in NAMES]


@pytest.mark.parametrize("sender", ["companion@example.org", f"n@{'d' * 60}.example.org", "rita@bücher.example"])
async def test_no_name_hides_or_adds_an_address(
    our_database: Database, clock: ManualClock, smtp: MailServer, sender: str
) -> None:
    """Names of servers and of senders: mail servers refuse a From that is no address, or several."""
    backend = SmtpBackend(sender, SmtpAccount(smtp.host, smtp.port, "none"))
    address, contact = parse_email(sender).envelope, f"contact@{'c' * 63}.bücher.example"

    async def check(name: str, written: str) -> None:
        mail_harness = MailHarness(our_database, clock, sender=written, name=name)
        mail_harness.server = replace(mail_harness.server, contact=contact)
        await backend.send(mail_harness.renderer.compose("mail_test", ALICE, "en", {}), ALICE)
        letter = smtp.letters[-1]
        raw = message_from_bytes(letter.content)
        found = {it: getaddresses([re.sub(r"\r\n", "", str(raw[it]))]) for it in ("From", "To", "Reply-To")}
        assert {it: [address for _name, address in listed] for it, listed in found.items()} == {
            "From": [address],
            "To": [ALICE.envelope],
            "Reply-To": [parse_email(contact).envelope],
        }
        assert str(make_header(decode_header(found["From"][0][0]))) == name
        assert [letter.sender, *(it.addr_spec for it in letter.message["From"].addresses)] == [address, address]
        assert name in str(letter.subject)
        assert max(map(len, letter.content.splitlines())) <= 998

    for name in [*NAMES, *LONG]:
        await check(name, sender)
        if not {*name} & {*'<>"\\'}:
            await check(name, f"{name} <{sender}>")
        if not {*name} & {*"<>"}:
            quoted = re.sub(r'(["\\])', r"\\\1", name)
            await check(name, f'"{quoted}" <{sender}>')


def test_a_host_writes_his_own_words(our_database: Database, clock: ManualClock, tmp_path: Path) -> None:
    (tmp_path / "verification_code.en.txt").write_text("Subject: Ahoy!\n\nThe word is $code, ye have $minutes.\n")
    (tmp_path / "nl").mkdir()
    (tmp_path / "nl" / "verification_code.txt").write_text("Subject: Hallo\n\nJe code: $code\n", encoding="utf-8")
    (tmp_path / "README").write_text("not a mail")
    mail_harness = MailHarness(our_database, clock, tmp_path)
    code = mail_harness.ask_for_code()
    message = as_received(render(mail_harness))
    assert message["Subject"] == "Ahoy!"
    assert text_of(message) == f"The word is {code}, ye have 5.\r\n"
    assert f'<p style="margin:0 0 16px">The word is {code}, ye have 5.</p>' in html_of(message)
    assert load_mail_templates(tmp_path).languages == sorted([*load_mail_templates(None).languages, "nl"])
    dutch = mail_harness.renderer.compose("verification_code", ALICE, "nl", {"code": "123456", "minutes": "5"})
    assert dutch["Subject"] == "Hallo"


def test_the_html_of_a_text_shows_what_the_text_means(tmp_path: Path) -> None:
    (tmp_path / "received.en.txt").write_text(
        "Subject: Hi\n\nAhoy $username,\nread <a> & b: https://rules.example.org/?a=1&b=$username.\n"
        "Costs $$5 or $$link.\n \n\tline one\n    line two for $username\n\n\nRead: $link\nPort:  $game\n"
        "Go there : ${link}\nBye\n\n$link\n"
    )
    html = fill(tmp_path, "received", username="<Bob>", link="https://l.example.org/#t", game="play & run")
    link = '<a class="link" href="{0}" style="color:#123456">{0}</a>'
    assert re.sub(r' style="(?!color)[^"]*"', "", html) == (
        "<p>Ahoy &lt;Bob&gt;,<br>\n"
        f"read &lt;a&gt; &amp; b: {link.format('https://rules.example.org/?a=1&amp;b=&lt;Bob&gt;')}.<br>\n"
        "Costs $5 or $link.</p>\n"
        "<blockquote>line one<br>\nline two for &lt;Bob&gt;</blockquote>\n"
        f"<p>Read: {link.format('https://l.example.org/#t')}<br>\nPort:  <strong>play &amp; run</strong></p>\n"
        '<table role="presentation" cellpadding="0" cellspacing="0" border="0"><tr>'
        '<td class="button" bgcolor="#123456"><a class="button" href="https://l.example.org/#t">Go there</a>'
        "</td></tr></table>\n"
        f"<p>Bye</p>\n<p>{link.format('https://l.example.org/#t')}</p>"
    )
    without = fill(tmp_path, "received", username=None, link=None, game=None)
    shown = ["<p>Costs $5 or $link.</p>", "<blockquote>line one</blockquote>", "<p>Bye</p>"]
    assert re.sub(r' style="[^"]*"', "", without).splitlines() == shown
    (tmp_path / "received.en.txt").write_text("Subject: Hi $username\n\n    $username\n\n")
    assert fill(tmp_path, "received", username=None, link=None, game=None) == ""


def fill(folder: Path, name: str, **values: str | None) -> str:
    """Return the content of a mail of the host's, in a layout without anything else."""
    (folder / "layout.html").write_text("$content")
    common = {"server": "Example Craft", "accent": "#123456", "accent_dark": "#654321", "logo": None}
    return load_mail_templates(folder).get(name, "en").fill({**common, **values})[2].strip()


def test_html_of_the_host_wins_where_there_is_some(our_database: Database, clock: ManualClock, tmp_path: Path) -> None:
    """Their layout is around their HTML and around what is made from texts, the built-in ones included."""
    (tmp_path / "layout.html").write_text("<main style='color:$accent'>$content</main>\n<img src='$logo'>")
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "banned.txt").write_text("Subject: Out\n\nBanned until $until, $username.\n")
    (tmp_path / "en" / "banned.html").write_text("<h1 style='color:$accent'>Out, $username!</h1>\n<i>$until</i>")
    (tmp_path / "en" / "deleted.txt").write_text("Subject: Gone\n\nGone, $username.\n")
    renderer = MailHarness(our_database, clock, tmp_path).renderer
    values = {"username": "<Bob>", "reason": None, "until": None}
    contents = {
        ("banned", "en"): "<h1 style='color:#2f6f4f'>Out, &lt;Bob&gt;!</h1>",
        ("deleted", "en"): "Gone, &lt;Bob&gt;.</p>",
        ("unbanned", "en"): "Hello &lt;Bob&gt;,</p>",
        ("banned", "fr"): "Bonjour &lt;Bob&gt;,</p>",
    }
    for (name, language), content in contents.items():
        html = html_of(renderer.compose(name, ALICE, language, values))
        assert html.startswith("<main style='color:#2f6f4f'>")
        assert content in html
        assert not re.search(r"<i>|<img|DOCTYPE", html)


def test_a_language_that_is_no_longer_offered_is_not_written_in(our_database: Database, clock: ManualClock) -> None:
    mail_harness = MailHarness(our_database, clock, languages=["en", "zh"])
    mail_harness.ask_for_code(language="fr")
    assert '<html lang="en" dir="ltr">' in html_of(as_received(render(mail_harness)))


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("approved.en.txt", "Hello", "first line"),
        ("approved.en.txt", "Subject: Hi\n\nYour $code", r"\$code is unknown here"),
        ("approved.en.txt", "Subject: $reward\n\nHello", r"\$reward is unknown here"),
        ("approved.en.txt", "Subject: Hi\n\n100 $ for you", "a lone \\$"),
        ("aproved.en.txt", "Subject: Hi\n\nHello", "no mail with this name"),
    ],
)
def test_broken_words_are_noticed_when_they_are_read(tmp_path: Path, file: str, text: str, complaint: str) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(BrokenTemplate, match=complaint):
        load_mail_templates(tmp_path)


def test_words_that_are_not_utf8_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "approved.en.txt").write_bytes(b"Subject: \xff\n\n")
    with pytest.raises(BrokenTemplate, match="not UTF-8"):
        load_mail_templates(tmp_path)
