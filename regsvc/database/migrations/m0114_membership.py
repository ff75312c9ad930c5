"""Columns for memberships that end: by a date, for idleness, or with a role of a chat platform.

Two generated columns spare the hot queries a condition, and hosts without ends a statement: `due_at` is when a sync run
has to look at a user again, `access` what the gates obey.
"""

from typing import Final

from regsvc.database.migrations.m0100_baseline import refusals_of_dates

_DATES: Final = ("member_until", "lapses_at", "ended_at", "renewed_at", "reminded_at", "stay_asked_at")
_REFUSE_NEW, _REFUSE_CHANGED = refusals_of_dates(_DATES)

TABLES: Final = """
ALTER TABLE regsvc_user ADD COLUMN
  member_until {moment} NULL -- end of the membership; empty: none is set; operators may edit it;

ALTER TABLE regsvc_user ADD COLUMN
  applied_until {moment} NULL -- end applied so far; written by the daemon only;

ALTER TABLE regsvc_user ADD COLUMN
  lapses_at {moment} NULL -- when the membership ends for idleness, or with a role; empty: it does not, as far as is known;

ALTER TABLE regsvc_user ADD COLUMN
  lapse {text:8} NULL CHECK (lapse IN ('idle', 'role')) -- why it ends then;

ALTER TABLE regsvc_user ADD COLUMN
  ended_because {text:8} NULL CHECK (ended_because IN ('date', 'idle', 'role')) -- why the membership has ended; empty while it lasts; operators may edit it;

ALTER TABLE regsvc_user ADD COLUMN
  applied_ended {text:8} NULL -- cause applied so far; written by the daemon only;

ALTER TABLE regsvc_user ADD COLUMN
  ended_at {moment} NULL -- when it ended; written by the daemon only;

ALTER TABLE regsvc_user ADD COLUMN
  renewed_at {moment} NULL -- when it last began anew: idleness counts from then, too;

ALTER TABLE regsvc_user ADD COLUMN
  reminded_at {moment} NULL -- when the end was set, or the user last reminded of it;

ALTER TABLE regsvc_user ADD COLUMN
  stay_asked_at {moment} NULL -- when the user asked to stay; empty: they did not, or it is decided;

ALTER TABLE regsvc_user ADD COLUMN
  member_for {text:32} NULL -- how long a membership lasts that an approval begins, by the user's invitation; empty: as the config says; written by the daemon only;

ALTER TABLE regsvc_user ADD COLUMN
  due_at {moment} GENERATED ALWAYS AS (CASE WHEN status = 'banned' THEN ban_expires_at WHEN status <> 'approved' OR ended_because IS NOT NULL THEN NULL WHEN member_until IS NULL OR lapses_at < member_until THEN COALESCE(lapses_at, member_until) ELSE member_until END) {generated} -- when a ban or the membership ends next; empty: neither does;

ALTER TABLE regsvc_user ADD COLUMN
  access {text:16} GENERATED ALWAYS AS (CASE WHEN applied_status = 'approved' AND ended_because IS NOT NULL THEN 'ended' ELSE applied_status END) {generated} -- what keeps the user in or out of the game: the status, or that the membership has ended;

CREATE INDEX regsvc_user_due ON regsvc_user (due_at);

CREATE INDEX regsvc_user_ended ON regsvc_user (ended_at);

CREATE INDEX regsvc_user_stay_asked ON regsvc_user (stay_asked_at);

ALTER TABLE regsvc_invitation ADD COLUMN
  member_for {text:32} NULL -- how long the memberships of the invited last; empty: as the config says;

ALTER TABLE regsvc_chat_link ADD COLUMN
  roles_seen_at {moment} NULL -- when the platform last said surely whether the account has a role that keeps its user;

ALTER TABLE regsvc_chat_link ADD COLUMN
  roles_missed_at {moment} NULL -- since when it says that the account has none of them; empty: it has one;
"""

# Without statistics SQLite reads all the approved for the few who have ended; MariaDB and MySQL use the index of `ended_at`.
TRIGGERS: Final = {
    "sqlite": [
        """
        CREATE INDEX IF NOT EXISTS regsvc_user_has_ended ON regsvc_user (created_at DESC, id DESC) WHERE access = 'ended'
        """,
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_user_has_member_dates BEFORE INSERT ON regsvc_user
        BEGIN SELECT CASE {_REFUSE_NEW} END; END
        """,
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_user_gets_member_dates BEFORE UPDATE OF {", ".join(_DATES)} ON regsvc_user
        BEGIN SELECT CASE {_REFUSE_CHANGED} END; END
        """,
    ],
}

VIEWS: Final = """
DROP VIEW IF EXISTS regsvc_v_users;

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
  p.plugin_since AS plugin_since, -- since when it is in this state
  u.access AS access, -- the status, or ended: approved, but the membership has ended
  u.member_until AS member_until, -- end of the membership; empty: none is set
  u.ended_because AS ended_because, -- why the membership has ended: date, idle, role
  u.ended_at AS ended_at -- when it ended
FROM regsvc_user u
LEFT JOIN regsvc_sync_record p ON p.username_key = u.username_key;
"""
