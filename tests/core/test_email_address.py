"""E-mail addresses: parsing, comparing and the host's policy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regsvc.core import email_address
from regsvc.core.email_address import EmailAddress, EmailPolicy, parse_email
from regsvc.core.errors import DomainNotAllowed, InvalidEmail, Refusal


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("alice@example.org", "alice@example.org"),
        ("Alice@Example.ORG", "alice@example.org"),
        ("alice+minecraft@example.org", "alice+minecraft@example.org"),
        ("JOSÉ@example.org", "josé@example.org"),
        ("jose\u0301@example.org", "josé@example.org"),
        ("alice@Bücher.example", "alice@xn--bcher-kva.example"),
        ("alice@xn--bcher-kva.example", "alice@xn--bcher-kva.example"),
        ("爱丽丝@例子.中国", "爱丽丝@xn--fsqu00a.xn--fiqs8s"),
        ('"Alice B"@example.org', '"alice b"@example.org'),
        ('"a@b"@example.org', '"a@b"@example.org'),
        ('"alice"@example.org', "alice@example.org"),
        ("alice@mail.game.test", "alice@mail.game.test"),
    ],
)
def test_addresses_that_reach_one_mailbox_compare_alike(written: str, key: str) -> None:
    assert parse_email(written).key == key


@pytest.mark.parametrize("written", ["Alice.B@example.org", "aliceb+game@example.org", "a.liceb+a+b.c@EXAMPLE.org"])
def test_tags_and_dots_make_no_other_mailbox(written: str) -> None:
    assert parse_email(written).mailbox == "aliceb@example.org"


@pytest.mark.parametrize("written", ["+@example.org", '"."@example.org', "bob@example.org", "bob@a.example.org"])
def test_a_mailbox_is_never_everybodys(written: str) -> None:
    mailboxes = [
        parse_email(other).mailbox for other in (written, "aliceb@example.org", "b@example.org", "+b@example.org")
    ]
    assert len(set(mailboxes)) == 4
    assert all(mailbox.partition("@")[0] for mailbox in mailboxes)


WORDS = st.text("aZ09-_+", min_size=1, max_size=20)


@given(
    st.lists(WORDS, min_size=1, max_size=4), st.lists(WORDS, min_size=1, max_size=3), st.sampled_from(["org", "Test"])
)
def test_a_plain_address_is_parsed_as_any_other(local_part: list[str], domain: list[str], end: str) -> None:
    written = f"{'.'.join(local_part)}@{'.'.join([*domain, end])}"
    if email_address._PLAIN.fullmatch(written) is not None:
        parsed = email_address._validate(written)
        assert parse_email(written) == EmailAddress(parsed.normalized, parsed.normalized.lower())


def test_the_owners_way_of_writing_is_kept() -> None:
    assert parse_email("Alice.B@Bücher.Example").display == "Alice.B@bücher.example"


def test_a_mail_server_gets_the_domain_in_ascii() -> None:
    assert parse_email("Alice@Bücher.example").envelope == "Alice@xn--bcher-kva.example"
    assert parse_email('"A@b"@example.org').envelope == '"A@b"@example.org'


@pytest.mark.parametrize(
    "written",
    [
        "",
        "alice",
        "alice@",
        "@example.org",
        "alice@localhost",
        "alice@@example.org",
        "alice@example..org",
        ".alice@example.org",
        "alice b@example.org",
        "Alice <alice@example.org>",
        "alice@example.org\r\nBcc: bob@example.org",
        "alice@example.org\n",
        '"alice\r\nBcc: bob"@example.org',
        "alice@exa\x00mple.org",
        "alice\u202e@example.org",
        "alice@example.org,bob@example.org",
        "a" * 65 + "@example.org",
        "alice@" + "a" * 64 + ".org",
        "alice@" + "abcdefgh." * 30 + "org",
        "é" * 130 + "@example.org",
        "\ud800@example.org",
    ],
)
def test_text_that_is_not_an_address_is_refused(written: str) -> None:
    with pytest.raises(InvalidEmail):
        parse_email(written)


@pytest.mark.parametrize("written", ["alice@[192.0.2.7]", "alice@[IPv6:2001:db8::7]"])
def test_ip_addresses_in_brackets_are_refused(written: str) -> None:
    with pytest.raises(DomainNotAllowed):
        parse_email(written)


@given(st.text() | st.emails())
def test_every_text_is_an_address_or_a_refusal(written: str) -> None:
    try:
        address = parse_email(written)
    except Refusal:
        return
    assert parse_email(address.display).key == address.key
    assert len(address.key) <= 320
    assert not set("\r\n\0") & set(address.display + address.key + address.envelope)


def policy(domains: list[str] | None = None, blocked: list[str] | None = None, aliases: bool = True) -> EmailPolicy:
    return EmailPolicy(domains or [], blocked or [], accepts_aliases=aliases)


@pytest.mark.parametrize(
    ("rules", "written"),
    [
        (policy(), "alice@example.org"),
        (policy(domains=["example.org"]), "Alice@EXAMPLE.org"),
        (policy(domains=["xn--bcher-kva.example"]), "alice@bücher.example"),
        (policy(blocked=["example.org"]), "alice@notexample.org"),
        (policy(aliases=False), "alice@example.org"),
    ],
)
def test_a_host_takes(rules: EmailPolicy, written: str) -> None:
    rules.parse(written)


@pytest.mark.parametrize(
    ("rules", "written"),
    [
        (policy(domains=["example.org"]), "alice@example.com"),
        (policy(domains=["example.org"]), "alice@mail.example.org"),
        (policy(blocked=["example.org"]), "alice@example.org"),
        (policy(blocked=["example.org"]), "alice@a.b.example.org"),
    ],
)
def test_a_host_refuses_a_domain(rules: EmailPolicy, written: str) -> None:
    with pytest.raises(DomainNotAllowed):
        rules.parse(written)


def test_quotes_are_refused_where_mails_go_to_a_service_and_what_needs_none_is_taken() -> None:
    rules = EmailPolicy((), (), accepts_aliases=True, accepts_quoted=False)
    for take in (rules.parse, rules.parse_mailable):
        with pytest.raises(InvalidEmail):
            take('"a b"@example.org')
        assert take('"alice"@example.org').envelope == "alice@example.org"
    assert policy().parse('"a b"@example.org').is_quoted


def test_a_host_may_refuse_aliases() -> None:
    with pytest.raises(InvalidEmail) as refused:
        policy(aliases=False).parse("alice+2@example.org")
    assert refused.value.facts == {"fault": "alias"}
