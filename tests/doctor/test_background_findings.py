"""Background work that waits for a person: held-back changes, conflicts, failed messages."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.doctor_case import DoctorCase, port_closed

BRAKED = "INSERT INTO regsvc_audit (action, operator, created_at) VALUES (?, 'sync', '2026-01-01 00:00:00.000')"
CONFLICT = (
    "INSERT INTO regsvc_sync_record (username_key, presence, plugin_state, plugin_since)"
    " VALUES (?, 'present', ?, '2026-01-01 00:00:00.000')"
)
MESSAGE = (
    "INSERT INTO regsvc_outbox (kind, template, recipient, recipient_key, language, attempts, created_at,"
    " next_attempt_at, outcome) VALUES (?, 'approved', 'a@example.org', 'a@example.org', 'en', 8, ?, ?, ?)"
)

MAIL = (
    "INSERT INTO regsvc_outbox (kind, template, recipient, recipient_key, language, attempts, created_at,"
    " next_attempt_at, outcome, last_error) VALUES ('mail', 'approved', ?, ?, 'en', 1, ?, ?, ?, ?)"
)
HITS = (
    "INSERT INTO regsvc_rate_limit (scope, subject, period_seconds, started_at, ends_at, hits)"
    " VALUES (?, ?, 3600, ?, ?, ?)"
)


@pytest.fixture(autouse=True)
def started(doctor_case: DoctorCase) -> None:
    doctor_case.start_once()


def serve_status(doctor_case: DoctorCase, *, braked: bool, **more: object) -> None:
    """A running companion that reports this."""
    told = json.dumps({"success": True, "braked": braked, **more}).encode()
    doctor_case.change_host(fetch=lambda url: told)


def test_the_last_sync_was_braked(doctor_case: DoctorCase) -> None:
    serve_status(doctor_case, braked=True)
    assert "--allow-mass-changes" in doctor_case.only_finding("sync.braked").do
    doctor_case.change_host(fetch=port_closed)
    doctor_case.our_database.execute(BRAKED, ("sync.run",))
    doctor_case.our_database.execute(BRAKED, ("sync.braked",))
    doctor_case.only_finding("sync.braked")
    serve_status(doctor_case, braked=False)  # a running daemon knows better
    assert doctor_case.findings() == []


def test_ends_of_memberships_that_wait_are_told_as_such(doctor_case: DoctorCase) -> None:
    doctor_case.our_database.execute(
        BRAKED.replace("action,", "action, detail,").replace("(?,", "(?, ?,"),
        ("sync.braked", json.dumps({"locked": 34, "ended": 30})),
    )
    finding = doctor_case.only_finding("sync.braked")
    assert "holds back 4 locks and 30 ends of memberships" in finding.title
    assert "locks these players and ends these memberships" in finding.do
    assert "If the clock is wrong, or membership.idle too short, correct it" in finding.do


def test_ends_that_wait_because_of_the_clock_say_so(doctor_case: DoctorCase) -> None:
    doctor_case.our_database.execute(
        BRAKED.replace("action,", "action, detail,").replace("(?,", "(?, ?,"),
        ("sync.braked", json.dumps({"locked": 1, "ended": 1, "days": 365})),
    )
    finding = doctor_case.only_finding("sync.braked")
    assert finding.title == (
        "The sync holds back 1 end of a membership: the companion was off for 365 days, or the clock was set forward."
    )
    assert "companion sync --allow-mass-changes: it ends these memberships" in finding.do
    assert "If the clock is wrong" in finding.do


def test_players_wait_for_a_decision(doctor_case: DoctorCase) -> None:
    for name, state in (("alice", "conflict"), ("bob", "returned"), ("carol", "synced")):
        doctor_case.our_database.execute(CONFLICT, (name, state))
    assert doctor_case.only_finding("sync.conflicts").title == "2 players wait: alice, bob."
    for name in ("dave", "erin", "frank"):
        doctor_case.our_database.execute(CONFLICT, (name, "conflict"))
    assert doctor_case.only_finding("sync.conflicts").title == "5 players wait: alice, bob, dave, …"


def test_players_differ(doctor_case: DoctorCase) -> None:
    doctor_case.our_database.execute(CONFLICT, ("alice", "conflict"))
    doctor_case.our_database.execute("UPDATE regsvc_sync_record SET conflict = 'email' WHERE username_key = 'alice'")
    finding = doctor_case.only_finding("sync.disputed")  # approving or rejecting would not resolve it
    assert finding.title == "1 player differs: alice."
    assert "approve" not in finding.do


def test_the_sync_stands_still(doctor_case: DoctorCase) -> None:
    serve_status(doctor_case, braked=False, syncSeconds=599)
    assert doctor_case.findings() == []
    serve_status(doctor_case, braked=False, syncSeconds=7200)
    assert doctor_case.only_finding("sync.stale").title == "The sync has not run for 120 minutes."


def test_messages_failed(doctor_case: DoctorCase) -> None:
    long_ago = "2026-01-01 00:00:00.000"
    for kind in ("mail", "mail", "webhook"):
        doctor_case.our_database.execute(MESSAGE, (kind, long_ago, None, "failed"))
    findings = doctor_case.findings()
    assert [finding.title for finding in findings] == ["2 mails failed.", "1 webhook call failed."]
    assert ["resend" in finding.do for finding in findings] == [True, False]
    assert {finding.id for finding in findings} == {"outbox.failed"}


def test_messages_wait(doctor_case: DoctorCase) -> None:
    recent, earlier = (
        (datetime.now(UTC) - timedelta(minutes=minutes)).strftime("%Y-%m-%d %H:%M:%S.000") for minutes in (4, 6)
    )
    doctor_case.our_database.execute(MESSAGE, ("mail", recent, recent, None))
    assert doctor_case.findings() == []
    doctor_case.our_database.execute(MESSAGE, ("mail", earlier, earlier, None))
    assert "no companion is running here" in doctor_case.only_finding("outbox.stuck").title
    serve_status(doctor_case, braked=False)
    assert "no companion" not in doctor_case.only_finding("outbox.stuck").title


# R80
def test_mails_are_refused(doctor_case: DoctorCase) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.000")
    rows = [
        *((f"p{number}@example.org", "sent", None) for number in range(25)),
        ("alice@example.org", None, "550 5.4.5 Daily limit exceeded for alice@example.org. x1-2 - gsmtp"),
        ("alice@example.org", None, "550 5.4.5 Daily limit exceeded for alice@example.org. x1-3 - gsmtp"),
        ("bob@example.org", "failed", "550 5.4.5 Daily limit exceeded for bob@example.org. x1-4 - gsmtp"),
    ]
    for address, outcome, error in rows:
        doctor_case.our_database.execute(MAIL, (address, address, now, None if outcome else now, outcome, error))
    assert "mail.refused" not in {finding.id for finding in doctor_case.findings()}
    row = ("carol@example.org", "carol@example.org", now, now, None, "550 5.1.1 No such user carol")
    doctor_case.our_database.execute(MAIL, row)
    [refused] = [finding for finding in doctor_case.findings() if finding.id == "mail.refused"]
    reply = "550 5.4.5 Daily limit exceeded for … x1-4 - gsmtp."
    assert refused.title == f"Mails to 3 of the last 19 recipients were refused: {reply}"


def test_registrations_in_total_are_used_up(doctor_case: DoctorCase) -> None:
    ends_at = (datetime.now(UTC) + timedelta(minutes=30)).strftime("%Y-%m-%d %H:%M:%S.000")
    doctor_case.our_database.execute(HITS, ("registration.total", "", ends_at, ends_at, 40))
    assert doctor_case.findings() == []  # each proves an address
    doctor_case.change("registration", methods=["captcha"])
    doctor_case.sections["mail"] = {"backend": "off"}
    findings = {finding.id: finding for finding in doctor_case.findings()}
    assert findings.keys() == {"mail.unproven", "mail.unproven_used_up"}
    assert findings["mail.unproven_used_up"].title.startswith("60 per hour registrations are used up for another ")


def test_mails_in_total_are_used_up(doctor_case: DoctorCase) -> None:
    now = datetime.now(UTC)
    for subject, (minutes, hits) in {"": (30, 10), "1": (50, 10), "2": (55, 19), "3": (-1, 100)}.items():
        ends_at = (now + timedelta(minutes=minutes)).strftime("%Y-%m-%d %H:%M:%S.000")
        doctor_case.our_database.execute(HITS, ("mail.total", subject, ends_at, ends_at, hits))
    assert doctor_case.findings() == []
    doctor_case.our_database.execute("UPDATE regsvc_rate_limit SET hits = 20 WHERE subject = '2'")
    finding = doctor_case.only_finding("mail.used_up")
    assert finding.title.startswith("verification.limits_total (60 per hour) is used up for another ")
    assert "captcha.also_for" in finding.do


def test_tokens_are_unused(doctor_case: DoctorCase) -> None:
    token = (
        "INSERT INTO regsvc_token (name, active_name, public_part, hash, permissions, maker, created_at, last_used_at,"
        " revoked_at) VALUES (?, ?, ?, 'x', 'users.read', 'Olivia', '2026-01-01 00:00:00.000', ?, ?)"
    )
    now = datetime.now(UTC)
    recent, long_ago = (f"{now - timedelta(days=days):%Y-%m-%d %H:%M:%S}.000" for days in (80, 100))
    for name, used_at, revoked_at in (("busy", recent, None), ("idle", long_ago, None), ("gone", long_ago, recent)):
        doctor_case.our_database.execute(token, (name, None if revoked_at else name, name, used_at, revoked_at))
    assert doctor_case.only_finding("team.unused_tokens").title == "1 token is unused: idle."
