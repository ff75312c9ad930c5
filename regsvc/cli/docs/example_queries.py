"""Example SQL queries for docs/schema.md. A test runs each of them."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class ExampleQuery:
    """`sql` is one statement without a semicolon that runs on SQLite, MariaDB and MySQL; `note` explains the result."""

    name: str
    title: str
    sql: str
    note: str


EXAMPLE_QUERIES: Final = (
    ExampleQuery(
        "review_queue",
        "Who is waiting for review, and since when?",
        """\
SELECT username, email, registered_at, times_rejected, plugin_state, plugin_since
FROM regsvc_v_review_queue
ORDER BY registered_at""",
        "Oldest first. `times_rejected` counts earlier rejections of the name. A `plugin_state` of `conflict` "
        "means that the game has had a row of this name since `plugin_since` that is not the applicant's.",
    ),
    ExampleQuery(
        "banned",
        "Who is banned, why, and until when?",
        """\
SELECT username, reason, reviewed_by, reviewed_at, ban_expires_at
FROM regsvc_v_users
WHERE status = 'banned'
ORDER BY ban_expires_at IS NULL, ban_expires_at""",
        "The ban that ends next is first. An empty `ban_expires_at` means a permanent ban.",
    ),
    ExampleQuery(
        "story_of_alice",
        "What happened to Alice?",
        """\
SELECT created_at, action, operator, detail, ip
FROM regsvc_audit
WHERE target IN ('Alice', 'alice')
ORDER BY id""",
        "The audit log has names as they were written at the time, or in lower case. "
        "It outlives the user, and so does `regsvc_review`, which has every decision with its reason.",
    ),
    ExampleQuery(
        "undelivered_mails",
        "Which mails were not delivered?",
        """\
SELECT created_at, recipient, template, state, attempts, next_attempt_at, last_error
FROM regsvc_v_outbox
WHERE state <> 'sent'
ORDER BY id""",
        "`waiting` is tried again at `next_attempt_at`; `failed` is not tried again; `dropped` is no longer needed, "
        "for example a code that expired before the mail server accepted it.",
    ),
    ExampleQuery(
        "drift",
        "Which players differ from the expected state, and why?",
        """\
SELECT username, status, difference, found_at, why
FROM regsvc_v_sync_drift
ORDER BY difference, found_at""",
        "The state after the last sync run. `locked` is expected for a ban or a pending review; "
        "`conflict` and `returned` need a decision by an operator.",
    ),
    ExampleQuery(
        "rejected_names",
        "Which names were rejected earlier, and what is their status now?",
        """\
SELECT r.username, r.reviewed_at, r.operator, r.reason, u.status AS status_now
FROM regsvc_review r
LEFT JOIN regsvc_user u ON u.username_key = r.username_key
WHERE r.transition = 'reject'
ORDER BY r.id DESC""",
        "Newest first. An empty `status_now` means that no user has this name any more.",
    ),
    ExampleQuery(
        "logins_by_address",
        "From which addresses were logins as Alice attempted?",
        """\
SELECT ip, action, SUM(occurrences) AS times, MIN(created_at) AS first_at, MAX(created_at) AS last_at
FROM regsvc_audit
WHERE target IN ('Alice', 'alice') AND action IN ('user.logged_in', 'admin.logged_in', 'user.login_failed')
GROUP BY ip, action
ORDER BY last_at DESC""",
        "Web logins only; the game keeps its own. Failed logins are counted per hour, so their times are rounded.",
    ),
    ExampleQuery(
        "approvals_by_month",
        "Who approved most this month?",
        """\
SELECT SUBSTR(reviewed_at, 1, 7) AS month, operator, COUNT(*) AS approvals
FROM regsvc_review
WHERE transition = 'approve'
GROUP BY month, operator
ORDER BY month DESC, approvals DESC""",
        "The current month comes first. The operator `sql` stands for approvals made by editing the table.",
    ),
    ExampleQuery(
        "ban",
        "Ban Alice",
        """\
UPDATE regsvc_user
SET status = 'banned', reason = 'griefing'
WHERE username_key = 'alice'""",
        "The mail to Alice contains the reason. For a temporary ban also set "
        "`ban_expires_at = '2031-06-01 00:00:00'`, in UTC.",
    ),
    ExampleQuery(
        "unban",
        "Lift Alice's ban",
        """\
UPDATE regsvc_user
SET status = 'approved'
WHERE username_key = 'alice'""",
        "Her old password works again. The same statement approves a pending or rejected user.",
    ),
    ExampleQuery(
        "delete",
        "Delete Alice",
        """\
DELETE FROM regsvc_user
WHERE username_key = 'alice'""",
        "The next sync run removes her player. Her reviews and audit entries stay. On SQLite, run "
        "`PRAGMA foreign_keys = ON` first to delete her sessions and links as well; otherwise they are refused, and "
        "removed when they expire.",
    ),
)
