"""Mailed secrets are not stored: codes and link tokens are derived from a key and a row."""

import base64
import hmac
import json
import string
from collections import Counter

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from regsvc.auth.derived_secrets import ApplicationTokens, DerivedSecrets, is_same_secret, new_nonce, parse_row_id
from regsvc.database.models import User
from tests.support.database_fixtures import MakeUser

NONCE = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def secrets() -> DerivedSecrets:
    return DerivedSecrets(b"k" * 32)


def code(secrets: DerivedSecrets, **other: str | int) -> str:
    parts = {"purpose": "register", "row_id": 7, "nonce": NONCE, "email_key": "alice@example.org", **other}
    return secrets.code(digits=6, **parts)  # type: ignore[arg-type]


def test_the_same_row_has_the_same_code_on_every_daemon(secrets: DerivedSecrets) -> None:
    assert code(secrets) == code(DerivedSecrets(b"k" * 32))
    key = HKDF(SHA256(), 32, salt=None, info=b"companion verification code").derive(b"k" * 32)
    parts = b'["register", 7, "%b", "alice@example.org"]' % NONCE.encode()
    assert code(secrets) == str(int(hmac.new(key, parts, "sha256").hexdigest(), 16))[-6:]


def test_each_kind_of_secret_has_a_key_of_its_own_which_stays(secrets: DerivedSecrets) -> None:
    """Otherwise an upgrade would end every link and every second factor."""

    def mac(label: str, *parts: str | int) -> bytes:
        key = HKDF(SHA256(), 32, salt=None, info=f"companion {label}".encode()).derive(b"k" * 32)
        return hmac.digest(key, json.dumps(parts).encode(), "sha256")

    link, verifier = mac("mailed link", "reset", 7, NONCE), mac("PKCE verifier", "the state")
    assert secrets.link_token(7, NONCE, "reset") == f"7.{base64.urlsafe_b64encode(link).decode().rstrip('=')}"
    assert secrets.pkce_verifier("the state") == base64.urlsafe_b64encode(verifier).decode().rstrip("=")
    assert secrets.totp_secret(7, NONCE) == base64.b32encode(mac("TOTP secret", 7, NONCE)[:20]).decode()
    assert secrets.digest("chat state", "x") == mac("digest of a secret", "chat state", "x").hex()


@pytest.mark.parametrize(
    "other", [{"purpose": "unlink"}, {"row_id": 8}, {"nonce": NONCE[::-1]}, {"email_key": "bob@example.org"}]
)
def test_whatever_differs_gives_another_code(secrets: DerivedSecrets, other: dict[str, str | int]) -> None:
    assert code(secrets, **other) != code(secrets)


def test_another_key_gives_other_secrets(secrets: DerivedSecrets) -> None:
    other = DerivedSecrets(b"K" * 32)
    assert code(other) != code(secrets)
    assert other.link_token(7, NONCE, "reset") != secrets.link_token(7, NONCE, "reset")


def test_a_code_has_all_its_digits_and_each_is_as_likely_as_the_next(secrets: DerivedSecrets) -> None:
    codes = [code(secrets, row_id=row_id) for row_id in range(5000)]
    assert {len(one) for one in codes} == {6}
    counted = Counter("".join(codes))
    assert set(counted) == set(string.digits)
    assert all(2700 < times < 3300 for times in counted.values())  # 3,000 each, plus or minus six sigma


def test_a_nonce_never_comes_twice() -> None:
    assert len({new_nonce() for number in range(1000)}) == 1000
    assert len(new_nonce()) == 32, "what the columns take"


def test_a_link_token_opens_its_own_row_only(secrets: DerivedSecrets) -> None:
    token = secrets.link_token(7, NONCE, "reset")
    assert parse_row_id(token) == 7
    assert parse_row_id(f"{2**63 - 1}.abc") == 2**63 - 1
    assert parse_row_id(f"{2**63}.abc") is None
    assert secrets.is_link_token(token, 7, NONCE, "reset")
    assert not secrets.is_link_token(token, 8, NONCE, "reset")
    assert not secrets.is_link_token(token, 7, NONCE, "first_password")
    assert not secrets.is_link_token("8" + token[1:], 8, NONCE, "reset")


def test_a_link_token_needs_no_escaping_in_an_address(secrets: DerivedSecrets) -> None:
    token = secrets.link_token(7, NONCE, "reset")
    assert set(token) <= set(string.ascii_letters + string.digits + "-_.")


def test_a_browsers_tokens_open_the_applications_of_their_users(
    secrets: DerivedSecrets, alice: User, make_user: MakeUser
) -> None:
    """Bob's address is not proven, Carol has none; each token is bound to the address that its user had."""
    tokens, bob, carol = ApplicationTokens(secrets), make_user("Bob", email_key=None), make_user("Carol", email=None)
    shown = {tokens.token_of(user): user for user in (alice, bob, carol)}
    nonce = str(round(alice.created_at.timestamp() * 1000))
    addresses = {alice: "alice@example.org", bob: "Bob@Example.org", carol: ""}
    made = {secrets.link_token(user.id, nonce, f"application of {address}") for user, address in addresses.items()}
    assert made == set(shown)
    other = tokens.token_of(make_user("Dora")).partition(".")[2]
    assert tokens.find_users([*shown, f"{alice.id}.{other}", f"99.{other}", "", "1", other]) == shown
    assert tokens.find_users([*shown][:1]) == {tokens.token_of(alice): alice}
    assert tokens.find_users([]) == tokens.find_users(["", other]) == {}
    alice.email_key = "new@example.org"
    assert not any(tokens.is_token_of(alice, token) for token in shown)


def test_a_digest_knows_a_secret_again_and_does_not_tell_it(secrets: DerivedSecrets) -> None:
    digest = secrets.digest("chat state", "the state")
    assert digest == secrets.digest("chat state", "the state")
    assert len(digest) == 64
    others = (secrets.digest("link token", "the state"), secrets.digest("chat state", "another"))
    foreign = DerivedSecrets(b"K" * 32).digest("chat state", "the state")
    assert len({digest, *others, foreign}) == 4


def test_a_pkce_verifier_is_one_as_the_rfc_wants_it(secrets: DerivedSecrets) -> None:
    verifier = secrets.pkce_verifier("the state")
    assert len(verifier) == 43
    assert set(verifier) <= set(string.ascii_letters + string.digits + "-_")
    assert verifier == secrets.pkce_verifier("the state") != secrets.pkce_verifier("another")
    assert verifier != DerivedSecrets(b"K" * 32).pkce_verifier("the state")


@pytest.mark.parametrize("token", ["", ".", "7", "7.", ".abc", "-7.abc", "٧.abc", "7" * 20 + ".abc", "9" * 19 + ".abc"])
def test_what_is_no_token_names_no_row(token: str) -> None:
    assert parse_row_id(token) is None


@given(st.text())
def test_no_text_whatsoever_breaks_the_comparison(shown: str) -> None:
    assert not is_same_secret(shown, "123456") or shown == "123456"
    parse_row_id(shown)


def test_a_lone_surrogate_is_just_wrong() -> None:
    assert not is_same_secret("\ud800", "123456")
