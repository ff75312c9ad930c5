"""Views for people who type SQL: each answers an operator's question, from our tables alone.

They contain no secrets and no ORDER BY. A `--` note after a name goes into docs/schema.md.
"""

VIEWS = """
CREATE {view} regsvc_v_review_queue AS -- users waiting for a review
SELECT
  u.id AS id, -- id of the user; ascending in order of registration
  u.username AS username, -- as the player writes it
  u.username_key AS username_key, -- in lower case
  u.email AS email, -- as given
  u.is_email_verified AS is_email_verified, -- proven by a code or a mailed link
  u.platform AS platform, -- edition of the game
  u.language AS language, -- language of mails and messages
  u.origin AS origin, -- how the user was created
  u.registration_ip AS registration_ip, -- the client's address
  u.created_at AS registered_at, -- when the user registered
  COALESCE(p.plugin_state, 'pending') AS plugin_state, -- conflict: the game has a row of this name that belongs to another person
  p.plugin_since AS plugin_since, -- since when it is in this state
  (SELECT COUNT(*) FROM regsvc_review r
    WHERE r.username_key = u.username_key AND r.transition = 'reject') AS times_rejected, -- earlier rejections of this name
  (SELECT MAX(r.reviewed_at) FROM regsvc_review r
    WHERE r.username_key = u.username_key AND r.transition = 'reject') AS last_rejected_at -- last rejection
FROM regsvc_user u
LEFT JOIN regsvc_player p ON p.username_key = u.username_key
WHERE u.status = 'pending';

CREATE {view} regsvc_v_users AS -- all users with the state of their player
SELECT
  u.id AS id, -- ascending in order of registration
  u.username AS username, -- as the player writes it
  u.username_key AS username_key, -- in lower case
  u.email AS email, -- as given
  u.is_email_verified AS is_email_verified, -- proven by a code or a mailed link
  u.status AS status, -- desired status
  u.applied_status AS applied_status, -- status applied so far
  u.reason AS reason, -- reason of the last review
  u.reviewed_by AS reviewed_by, -- who decided
  u.reviewed_at AS reviewed_at, -- when it was decided
  u.banned_from AS banned_from, -- status to return to when the ban ends
  u.ban_expires_at AS ban_expires_at, -- end of the ban; empty: permanent, or not banned
  u.platform AS platform, -- edition of the game
  u.language AS language, -- language of mails and messages
  u.origin AS origin, -- how the user was created
  u.registration_ip AS registration_ip, -- the client's address
  u.created_at AS registered_at, -- when the user registered, here or in the game
  u.last_login_at AS last_login_at, -- last login on the web
  u.password_hash IS NOT NULL AS has_password, -- set through the companion and not changed in the game since
  COALESCE(p.plugin_state, 'pending') AS plugin_state, -- state of the player in the game
  p.plugin_since AS plugin_since -- since when it is in this state
FROM regsvc_user u
LEFT JOIN regsvc_player p ON p.username_key = u.username_key;

CREATE {view} regsvc_v_sync_drift AS -- differences between users and players after the last sync run
SELECT
  p.username_key AS username_key, -- in lower case
  u.username AS username, -- as the player writes it; in lower case if the user was deleted
  u.status AS status, -- desired status; empty if the user was deleted
  CASE WHEN p.plugin_state IN ('synced', 'off', 'absent') AND p.locked_at IS NOT NULL THEN 'locked'
    ELSE p.plugin_state END AS difference, -- conflict, returned, absent, pending, locked; edited, deleted: by SQL
  p.plugin_since AS found_at, -- since when; empty if unknown
  CASE
    WHEN p.plugin_state = 'conflict' AND p.conflict = 'name' THEN 'the game takes this name for another one that it has already'
    WHEN p.plugin_state = 'conflict' AND p.conflict IS NOT NULL THEN 'the sides differ in what stands under conflict, and neither gives way'
    WHEN p.plugin_state = 'conflict' THEN 'the game has a row of this name that is not this user''s'
    WHEN p.plugin_state = 'returned' THEN 'somebody unproven registered this name in the game: an approval or the mailed link opens it'
    WHEN p.plugin_state = 'pending' THEN 'the player is about to be written'
    WHEN p.lock_reason = 'banned' THEN 'locked until the ban ends'
    WHEN p.lock_reason = 'pending' THEN 'locked until the review'
    WHEN p.lock_reason = 'rejected' THEN 'locked because the user was rejected'
    WHEN p.locked_at IS NOT NULL OR p.plugin_state = 'locked' THEN 'locked'
    WHEN p.presence = 'gone' THEN 'the player was there and is gone: unregistered in the game, or purged'
    ELSE 'nobody has set a password yet: the mailed link makes the player' END AS why, -- explanation
  p.conflict AS conflict, -- fields in conflict
  p.wish AS wish, -- intent: the pending write to AuthMe's row
  p.lock_reason AS lock_reason, -- why the row is locked
  p.locked_at AS locked_at -- when it was locked
FROM regsvc_player p
JOIN regsvc_user u ON u.id = p.user_id
WHERE p.plugin_state IN ('conflict', 'returned', 'pending', 'locked')
  OR p.locked_at IS NOT NULL
  OR (p.plugin_state = 'absent' AND u.status = 'approved')
UNION ALL
SELECT
  u.username_key, u.username, u.status, 'edited', NULL,
  'a status was typed in SQL and is not carried out yet: the next run does, or a brake holds it', NULL, NULL, NULL, NULL
FROM regsvc_user u
WHERE u.is_edited = 1
UNION ALL
SELECT
  p.username_key, p.username_key, NULL, 'deleted', NULL,
  'the user was deleted in SQL and the player is still there: the next run removes it, or a brake holds it', NULL, p.wish, p.lock_reason, p.locked_at
FROM regsvc_player p
LEFT JOIN regsvc_user u ON u.id = p.user_id
WHERE p.user_id IS NOT NULL AND u.id IS NULL AND p.tombstone_at IS NULL;

CREATE {view} regsvc_v_recent_audit AS -- the newest 1000 entries of the audit log
SELECT
  a.id AS id, -- in order
  a.created_at AS created_at, -- when it happened
  a.operator AS operator, -- actor: a name, cli:<unix user>, sql, sync; empty if unknown
  a.action AS action, -- for example user.approved
  a.target AS target, -- name of the target
  a.detail AS detail, -- JSON
  a.ip AS ip, -- the client's address
  a.occurrences AS occurrences -- number of times, for a counted entry
FROM regsvc_audit a
ORDER BY a.id DESC
LIMIT 1000;

CREATE {view} regsvc_v_outbox AS -- outgoing messages and their results
SELECT
  o.id AS id, -- in order
  COALESCE(o.outcome, 'waiting') AS state, -- waiting, sent, failed (given up), dropped (no longer relevant)
  o.kind AS kind, -- mail, webhook or rcon
  o.template AS template, -- name of the mail or of the webhook event
  o.recipient AS recipient, -- recipient; for a webhook its name, never its URL
  u.username AS username, -- user it is about; empty if none, or if deleted
  o.language AS language, -- language of the text
  o.attempts AS attempts, -- attempts so far
  o.created_at AS created_at, -- when it was enqueued
  o.next_attempt_at AS next_attempt_at, -- next attempt; empty when done
  o.done_at AS done_at, -- when it was sent, failed or dropped
  o.last_error AS last_error -- error of the last failed attempt
FROM regsvc_outbox o
LEFT JOIN regsvc_user u ON u.id = o.user_id;
"""
