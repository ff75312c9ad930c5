"""What an operator asks the database, and the SQL that answers, for docs/schema.md. A test runs each of them."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class WorkedQuery:
    """`sql` is one statement without a semicolon, for SQLite, MariaDB and MySQL alike; `note` says how to read it."""

    name: str
    title: str
    sql: str
    note: str


WORKED_QUERIES: Final = (
    WorkedQuery(
        "review_queue",
        "Who waits for review, and since when?",
        """\
SELECT username, email, registered_at, times_rejected, plugin_state, plugin_since
FROM regsvc_v_review_queue
ORDER BY registered_at""",
        "The oldest first. `times_rejected` is how often the name was rejected before. A `plugin_state` of `conflict` "
        "says that the game has a row of this name that is not the applicant's, since `plugin_since`.",
    ),
    WorkedQuery(
        "banned",
        "Who is banned, why, and until when?",
        """\
SELECT username, reason, reviewed_by, reviewed_at, ban_expires_at
FROM regsvc_v_users
WHERE status = 'banned'
ORDER BY ban_expires_at IS NULL, ban_expires_at""",
        "Whoever comes back next is first. An empty `ban_expires_at` is a ban for good.",
    ),
    WorkedQuery(
        "story_of_alice",
        "What happened to Alice?",
        """\
SELECT created_at, action, operator, detail, ip
FROM regsvc_audit
WHERE target IN ('Alice', 'alice')
ORDER BY id""",
        "Names stand in the audit log as they were written at the time, or in lower case. "
        "The log outlives the user; so does `regsvc_review`, which has every decision with its reason.",
    ),
    WorkedQuery(
        "undelivered_mails",
        "Which mails were not delivered?",
        """\
SELECT created_at, recipient, template, state, attempts, next_attempt_at, last_error
FROM regsvc_v_outbox
WHERE state <> 'sent'
ORDER BY id""",
        "`waiting` is tried again at `next_attempt_at`; `failed` is given up; `dropped` became pointless, "
        "for example a code that expired before the mail server took it.",
    ),
    WorkedQuery(
        "drift",
        "Which players differ from what should be, and why?",
        """\
SELECT username, status, difference, found_at, why
FROM regsvc_v_sync_drift
ORDER BY difference, found_at""",
        "As the last run of the sync left it. `locked` is what a ban or a review asks for; "
        "`conflict` and `returned` wait for an operator.",
    ),
    WorkedQuery(
        "rejected_names",
        "Which names were rejected earlier, and what became of them?",
        """\
SELECT r.username, r.reviewed_at, r.operator, r.reason, u.status AS status_now
FROM regsvc_review r
LEFT JOIN regsvc_user u ON u.username_key = r.username_key
WHERE r.transition = 'reject'
ORDER BY r.id DESC""",
        "The newest first. An empty `status_now`: there is no user of this name any more.",
    ),
    WorkedQuery(
        "logins_by_address",
        "From which addresses did somebody log in as Alice?",
        """\
SELECT ip, action, SUM(occurrences) AS times, MIN(created_at) AS first_at, MAX(created_at) AS last_at
FROM regsvc_audit
WHERE target IN ('Alice', 'alice') AND action IN ('user.logged_in', 'admin.logged_in', 'user.login_failed')
GROUP BY ip, action
ORDER BY last_at DESC""",
        "Web logins; the game keeps its own. Failed ones are counted by the hour, so their times are to the hour.",
    ),
    WorkedQuery(
        "approvals_by_month",
        "Who approved most this month?",
        """\
SELECT SUBSTR(reviewed_at, 1, 7) AS month, operator, COUNT(*) AS approvals
FROM regsvc_review
WHERE transition = 'approve'
GROUP BY month, operator
ORDER BY month DESC, approvals DESC""",
        "This month is on top, the ones before follow. An operator of `sql` is somebody who typed it.",
    ),
    WorkedQuery(
        "ban",
        "Ban Alice",
        """\
UPDATE regsvc_user
SET status = 'banned', reason = 'griefing'
WHERE username_key = 'alice'""",
        "Alice reads the reason in the mail. For a ban that ends, also set "
        "`ban_expires_at = '2031-06-01 00:00:00'`, in UTC.",
    ),
    WorkedQuery(
        "unban",
        "Lift Alice's ban",
        """\
UPDATE regsvc_user
SET status = 'approved'
WHERE username_key = 'alice'""",
        "She plays again with the password she had. The same statement approves a user who waits or was rejected.",
    ),
    WorkedQuery(
        "delete",
        "Delete Alice",
        """\
DELETE FROM regsvc_user
WHERE username_key = 'alice'""",
        "Her player goes with the next run. Her reviews and her entries in the audit log stay. On SQLite say "
        "`PRAGMA foreign_keys = ON` first and her sessions and links go at once, too; else they are refused, and "
        "removed when their time is over.",
    ),
)
