"""Mailed secrets are not stored: codes and link tokens are derived from a key and a row."""

import hmac
import string
from collections import Counter

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from regsvc.auth.derived_secrets import DerivedSecrets, is_same_secret, new_nonce, parse_row_id

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


def test_a_link_token_opens_its_own_row_only(secrets: DerivedSecrets) -> None:
    token = secrets.link_token(7, NONCE, "reset")
    assert parse_row_id(token) == 7
    assert secrets.is_link_token(token, 7, NONCE, "reset")
    assert not secrets.is_link_token(token, 8, NONCE, "reset")
    assert not secrets.is_link_token(token, 7, NONCE, "first_password")
    assert not secrets.is_link_token("8" + token[1:], 8, NONCE, "reset")


def test_a_link_token_needs_no_escaping_in_an_address(secrets: DerivedSecrets) -> None:
    token = secrets.link_token(7, NONCE, "reset")
    assert set(token) <= set(string.ascii_letters + string.digits + "-_.")


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
