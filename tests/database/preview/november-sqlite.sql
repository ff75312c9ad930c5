BEGIN TRANSACTION;
CREATE TABLE regsvc_allowlist (
  username_key TEXT PRIMARY KEY, -- the name in lower case
  username     TEXT NOT NULL, -- the name as it is, or was, on the list
  state        TEXT NOT NULL, -- add and remove: is to be; listed; taken_off: by somebody in the game
  uuid         TEXT NULL, -- the player's in the game; empty: not known yet
  reason       TEXT NULL, -- what it waits for: no_uuid, no_profile, uuid_in_doubt, restart, refused, held_back
  since        TEXT NOT NULL, -- when this became so
  user_id      BIGINT NULL, -- id of the user; empty once deleted
  shown_as     TEXT GENERATED ALWAYS AS (CASE WHEN state = 'taken_off' THEN 'removed' WHEN state = 'add' AND reason = 'uuid_in_doubt' THEN 'conflict' WHEN state = 'listed' AND reason IS NULL THEN 'listed' ELSE 'waiting' END) VIRTUAL -- state shown in the user list as `allowlist`
);
CREATE TABLE regsvc_audit (
  id          INTEGER PRIMARY KEY AUTOINCREMENT, -- in order
  action      TEXT NOT NULL, -- for example user.approved
  operator    TEXT NOT NULL, -- actor: a name, cli:<unix user>, sql, sync; empty if unknown
  target      TEXT NULL, -- name of the target
  detail      TEXT NULL, -- JSON
  ip          TEXT NULL, -- the client's address
  tally       TEXT NULL UNIQUE, -- key of an entry that is counted instead of repeated
  occurrences INTEGER NOT NULL DEFAULT 1, -- number of times, for a counted entry
  created_at  TEXT NOT NULL -- when it happened
);
INSERT INTO "regsvc_audit" VALUES(1,'user.adopted','sync','Ivan','{"status":"pending"}',NULL,NULL,1,'2031-05-04 12:00:00.123');
INSERT INTO "regsvc_audit" VALUES(5,'sync.run','sync',NULL,'{"scanned":2,"adopted":2,"locked":2}',NULL,NULL,1,'2031-05-04 12:00:00.123');
INSERT INTO "regsvc_audit" VALUES(12,'user.banned','Olivia','Bob','{"statusBefore":"approved","reason":"griefing","expiresAt":1938254400123}','198.51.100.9',NULL,1,'2031-05-04 12:00:00.123');
INSERT INTO "regsvc_audit" VALUES(27,'user.banned','Olivia','Mallory','{"statusBefore":"approved","reason":"naïve “quotes”; it''s 50 % \\ backslash"}','198.51.100.9',NULL,1,'2031-05-04 12:10:00.123');
CREATE TABLE "regsvc_bucket" (
  bucket    INTEGER PRIMARY KEY, -- neighbouring ids of the plugin's table, or names with the same CRC32 modulo 65536
  row_count INTEGER NOT NULL, -- rows of the plugin's table in it
  checksum  BIGINT NOT NULL -- checksum of the columns that the sync compares
);
INSERT INTO "regsvc_bucket" VALUES(1531,1,814903213414);
CREATE TABLE regsvc_chat_link (
  id              INTEGER PRIMARY KEY AUTOINCREMENT, -- in order
  user_id         BIGINT NULL UNIQUE REFERENCES regsvc_user (id) ON DELETE CASCADE, -- user; empty while unclaimed
  claimed_account TEXT NULL UNIQUE, -- platform and account, unique among users; empty while unclaimed
  platform        TEXT NOT NULL, -- chat platform
  account_id      TEXT NOT NULL, -- its id there, which never changes
  username        TEXT NOT NULL, -- its name there, when it was linked
  discriminator   TEXT NOT NULL, -- the digits behind that name; 0 where there are none
  avatar          TEXT NULL, -- the platform's id of its picture
  global_name     TEXT NULL, -- its display name
  token_hash      TEXT NOT NULL UNIQUE, -- hash of the link token that claims it
  linked_at       TEXT NOT NULL -- when the platform confirmed it; unclaimed, it expires an hour later
);
INSERT INTO "regsvc_chat_link" VALUES(1,4,'discord:80351110224678912','discord','80351110224678912','bob','0',NULL,NULL,'eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee','2031-05-04 12:10:00.123');
CREATE TABLE regsvc_chat_request (
  id          INTEGER PRIMARY KEY AUTOINCREMENT, -- in order
  state_hash  TEXT NOT NULL UNIQUE, -- hash of the state, which itself is not stored
  token_hash  TEXT NOT NULL, -- hash of the link token of the browser that started it
  session_jti TEXT NULL REFERENCES regsvc_session (jti) ON DELETE CASCADE, -- session that started it; empty without a login
  created_at  TEXT NOT NULL -- when it was started
);
INSERT INTO "regsvc_chat_request" VALUES(1,'cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd','86d4ff15f739645db5a73a69f42c8ec9','2031-05-04 12:10:00.123');
CREATE TABLE regsvc_installation (
  id                   INTEGER PRIMARY KEY CHECK (id = 1), -- always 1
  installation_id      TEXT NOT NULL, -- id of this installation; also in the state directory
  home                 TEXT NOT NULL, -- name of this database, as the daemon resolved it
  key_fingerprint      TEXT NOT NULL, -- fingerprint of the installation key, to detect another one
  first_started_at     TEXT NOT NULL, -- players registered before then existed before the companion
  purging_audit_before TEXT NULL -- set while `companion purge` removes old audit entries
, digested_at TEXT NULL, digested_user_id BIGINT NULL, signing_key_fingerprint TEXT NULL, players_table TEXT NULL);
INSERT INTO "regsvc_installation" VALUES(1,'25499c40-b5d8-4026-9515-107a97801dc0','sqlite:companion.db','d11d7822e91daaa3','2031-05-04 12:00:00.123',NULL,'2031-05-04 12:10:00.123',3,NULL,NULL);
CREATE TABLE regsvc_invitation (
  id         INTEGER PRIMARY KEY AUTOINCREMENT, -- never reused
  nonce      TEXT NOT NULL, -- from which its token is derived, which is not stored
  grants     TEXT NOT NULL, -- what the invited need not do, separated by spaces
  uses       INTEGER NOT NULL, -- for how many registrations it is
  used       INTEGER NOT NULL, -- how many it was used for
  made_by    TEXT NULL, -- its maker in lower case, with whose right it ends; empty: the host, on the command line
  maker      TEXT NOT NULL, -- its maker as the audit log shows them
  created_at TEXT NOT NULL, -- when it was made
  expires_at TEXT NOT NULL, -- when it ends
  revoked_at TEXT NULL -- when it was revoked, or its maker lost the right
);
CREATE TABLE regsvc_known_client (
  id            INTEGER PRIMARY KEY AUTOINCREMENT, -- in order
  user_id       BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- user who logged in
  client        TEXT NOT NULL, -- IPv4 address, or /64 of an IPv6 address
  last_login_at TEXT NOT NULL, -- last successful login
  UNIQUE (user_id, client)
);
INSERT INTO "regsvc_known_client" VALUES(1,3,'198.51.100.7','2031-05-04 12:00:00.123');
INSERT INTO "regsvc_known_client" VALUES(2,4,'198.51.100.7','2031-05-04 12:00:00.123');
CREATE TABLE regsvc_lease (
  name       TEXT PRIMARY KEY, -- task that only one process may do
  holder     TEXT NOT NULL, -- installation and process
  expires_at TEXT NOT NULL -- by the database's clock
);
INSERT INTO "regsvc_lease" VALUES('sync','93551a992e1bb9b8643513f55849a928:done','2026-11-23 09:58:45.230');
CREATE TABLE regsvc_link (
  id          INTEGER PRIMARY KEY AUTOINCREMENT, -- its token is derived from it
  user_id     BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- user whose password it sets
  purpose     TEXT NOT NULL CHECK (purpose IN ('reset', 'first_password')), -- why it was mailed
  email_key   TEXT NOT NULL, -- address it was mailed to, and the only one it proves
  nonce       TEXT NOT NULL, -- its token is derived from it too
  created_at  TEXT NOT NULL, -- when it was requested
  expires_at  TEXT NOT NULL, -- when it expires
  redeemed_at TEXT NULL -- when it was used or invalidated
, issued_by TEXT NULL, maker TEXT NULL);
INSERT INTO "regsvc_link" VALUES(1,3,'reset','alice@example.org','11111111111111111111111111111111','2031-05-04 12:10:00.123','2031-05-04 13:10:00.123',NULL,NULL,NULL);
CREATE TABLE regsvc_migration (
  number     INTEGER PRIMARY KEY, -- of the migration
  name       TEXT NOT NULL, -- of the migration
  applied_at TEXT NOT NULL -- when
);
INSERT INTO "regsvc_migration" VALUES(100,'baseline','2026-11-28 10:45:48.050');
INSERT INTO "regsvc_migration" VALUES(101,'rights','2026-11-28 10:45:48.088');
INSERT INTO "regsvc_migration" VALUES(102,'players_table','2026-11-28 10:45:48.099');
INSERT INTO "regsvc_migration" VALUES(103,'urgent_mails','2026-11-28 10:45:48.113');
INSERT INTO "regsvc_migration" VALUES(104,'lists','2026-11-28 10:45:48.146');
INSERT INTO "regsvc_migration" VALUES(105,'allowlist','2026-11-28 10:45:48.147');
INSERT INTO "regsvc_migration" VALUES(106,'team','2026-11-28 10:45:48.148');
INSERT INTO "regsvc_migration" VALUES(107,'applications','2026-11-28 10:45:48.155');
INSERT INTO "regsvc_migration" VALUES(108,'team_chat','2026-11-28 10:45:48.165');
CREATE TABLE regsvc_note (
  id           INTEGER PRIMARY KEY AUTOINCREMENT, -- in order
  user_id      BIGINT NOT NULL, -- id of the user at that time
  username_key TEXT NOT NULL, -- in lower case
  email_key    TEXT NULL, -- the user's proven address at that time, normalized
  author       TEXT NOT NULL, -- who wrote it
  text         TEXT NOT NULL, -- what the team wrote; never shown to players, but in their export
  created_at   TEXT NOT NULL -- when
);
CREATE TABLE regsvc_outbox (
  id              INTEGER PRIMARY KEY AUTOINCREMENT, -- a recipient gets mails in this order
  kind            TEXT NOT NULL DEFAULT 'mail', -- mail, webhook or rcon
  template        TEXT NOT NULL, -- name of the mail or of the webhook event
  recipient       TEXT NOT NULL, -- recipient; for a webhook its name, never its URL
  recipient_key   TEXT NOT NULL, -- normalized for comparison
  language        TEXT NOT NULL, -- language of the text
  user_id         BIGINT NULL, -- user it is about
  row_id          BIGINT NULL, -- verification or review it is about; read when it is sent
  link_id         BIGINT NULL, -- password link in it
  attempts        INTEGER NOT NULL DEFAULT 0, -- attempts so far
  created_at      TEXT NOT NULL, -- when it was enqueued
  next_attempt_at TEXT NULL, -- next attempt; empty when done
  done_at         TEXT NULL, -- when it was sent, failed or dropped
  outcome         TEXT NULL CHECK (outcome IN ('sent', 'failed', 'dropped')), -- result
  last_error      TEXT NULL -- error of the last failed attempt
, payload TEXT NULL);
INSERT INTO "regsvc_outbox" VALUES(2,'mail','approved','alice@example.org','alice@example.org','en',3,1,NULL,1,'2031-05-04 12:00:00.123',NULL,'2031-05-04 12:10:00.123','failed','550 no such mailbox',NULL);
INSERT INTO "regsvc_outbox" VALUES(3,'mail','received','bob@example.org','bob@example.org','en',4,NULL,NULL,0,'2031-05-04 12:00:00.123','2031-05-04 12:00:00.123',NULL,NULL,NULL,NULL);
INSERT INTO "regsvc_outbox" VALUES(18,'webhook','user.approved','webhook','webhook','en',NULL,NULL,NULL,0,'2031-05-04 12:10:00.123','2031-05-04 12:10:00.123',NULL,NULL,NULL,'{"event":"user.approved"}');
CREATE TABLE regsvc_player_address (
  id      INTEGER PRIMARY KEY AUTOINCREMENT, -- in order
  user_id BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- the player's user
  source  TEXT NOT NULL CHECK (source IN ('ip', 'regip')), -- column of AuthMe's table: of the last login, or of the registration in the game
  address TEXT NOT NULL, -- the address there
  seen_at TEXT NOT NULL, -- when the player logged in, or registered
  UNIQUE (user_id, source)
);
CREATE TABLE regsvc_question (
  id           INTEGER PRIMARY KEY AUTOINCREMENT, -- in order
  user_id      BIGINT NOT NULL, -- id of the user at that time
  username_key TEXT NOT NULL, -- in lower case
  email_key    TEXT NULL, -- the user's proven address at that time, normalized
  author       TEXT NOT NULL, -- who asked
  question     TEXT NOT NULL, -- what the team asked
  answers      TEXT NULL, -- JSON of the questionnaire's answers that the question is about
  asked_at     TEXT NOT NULL, -- when
  answer       TEXT NULL, -- what the applicant answered
  answered_at  TEXT NULL -- when; empty: not answered
);
CREATE TABLE regsvc_questionnaire_result (
  id              INTEGER PRIMARY KEY AUTOINCREMENT, -- its token is derived from it
  nonce           TEXT NOT NULL, -- its token is derived from it too
  user_id         BIGINT NULL UNIQUE REFERENCES regsvc_user (id) ON DELETE CASCADE, -- user who registered with it; empty until then
  score           INTEGER NOT NULL, -- points so far; never below 0
  max_score       INTEGER NOT NULL, -- points that were possible
  pass_score      INTEGER NOT NULL, -- points that were needed
  is_passed       INTEGER NOT NULL, -- passed, or may still pass after a review
  requires_review INTEGER NOT NULL, -- an admin has to read it before the applicant may play
  summary         TEXT NOT NULL, -- summary for the review queue
  answers         TEXT NOT NULL, -- JSON: each question as it was asked, with its answer and points
  submitted_at    TEXT NOT NULL, -- when it was answered
  expires_at      TEXT NULL -- end of its validity; empty once it was used
, answer_seconds INTEGER NULL);
INSERT INTO "regsvc_questionnaire_result" VALUES(1,'22222222222222222222222222222222',5,7,10,6,1,1,'7 of 10','[{"question": "Why?", "answer": "To build\nhouses; big ones"}]','2031-05-04 12:10:00.123',NULL,NULL);
CREATE TABLE regsvc_rate_limit (
  id             INTEGER PRIMARY KEY AUTOINCREMENT, -- in order
  scope          TEXT NOT NULL, -- what is limited
  subject        TEXT NOT NULL, -- who is limited
  period_seconds INTEGER NOT NULL, -- length of the window
  started_at     TEXT NOT NULL, -- start of the current window
  ends_at        TEXT NOT NULL, -- end of the current window
  hits           INTEGER NOT NULL, -- hits in the window
  UNIQUE (scope, subject, period_seconds)
);
INSERT INTO "regsvc_rate_limit" VALUES(1,'registration','198.51.100.7',3600,'2031-05-04 12:10:00.123','2031-05-04 13:10:00.123',3);
CREATE TABLE regsvc_reader (
  reader       TEXT PRIMARY KEY, -- member of the team, in lower case
  name         TEXT NOT NULL, -- as shown
  username_key TEXT NOT NULL, -- the user who is open at theirs
  seen_at      TEXT NOT NULL -- when their page last said so
);
CREATE TABLE regsvc_recovery_code (
  id         INTEGER PRIMARY KEY AUTOINCREMENT, -- in order
  user_id    BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- user
  code_hash  TEXT NOT NULL, -- keyed hash of a code that was not used yet; the code itself is not stored
  created_at TEXT NOT NULL, -- when it was shown
  UNIQUE (user_id, code_hash)
);
INSERT INTO "regsvc_recovery_code" VALUES(1,3,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','2031-05-04 12:10:00.123');
INSERT INTO "regsvc_recovery_code" VALUES(2,3,'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','2031-05-04 12:10:00.123');
CREATE TABLE regsvc_review (
  id             INTEGER PRIMARY KEY AUTOINCREMENT, -- in order
  user_id        BIGINT NOT NULL, -- id of the user at that time
  username       TEXT NOT NULL, -- as the player writes it
  username_key   TEXT NOT NULL, -- in lower case
  transition     TEXT NOT NULL, -- approve, reject, ban, unban, delete
  status_before  TEXT NOT NULL, -- status before
  status_after   TEXT NULL, -- status after; empty after a deletion
  reason         TEXT NULL, -- shown to the user
  ban_expires_at TEXT NULL, -- end of a ban
  operator       TEXT NOT NULL, -- who decided
  reviewed_at    TEXT NOT NULL -- when it was decided
, email_key TEXT NULL, answers TEXT NULL);
INSERT INTO "regsvc_review" VALUES(3,4,'Bob','bob','ban','approved','banned','griefing','2031-06-03 12:00:00.123','Olivia','2031-05-04 12:00:00.123','bob@example.org',NULL);
INSERT INTO "regsvc_review" VALUES(7,9,'Heidi','heidi','delete','approved',NULL,'asked for it',NULL,'Olivia','2031-05-04 12:10:00.123','heidi@example.org',NULL);
INSERT INTO "regsvc_review" VALUES(9,10,'Mallory','mallory','ban','approved','banned','naïve “quotes”; it''s 50 % \ backslash',NULL,'Olivia','2031-05-04 12:10:00.123','mallory@example.org',NULL);
CREATE TABLE regsvc_session (
  jti              TEXT PRIMARY KEY, -- id of the access token; the token itself is not stored
  user_id          BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- owner
  audience         TEXT NOT NULL CHECK (audience IN ('user', 'admin')), -- login that issued it
  token_generation INTEGER NOT NULL, -- the user's token_generation when it was issued
  ip               TEXT NULL, -- the client's address at login
  created_at       TEXT NOT NULL, -- when it was issued
  last_seen_at     TEXT NOT NULL, -- rounded to a minute
  expires_at       TEXT NOT NULL -- when it expires at the latest
, has_second_factor INTEGER NOT NULL DEFAULT 0);
INSERT INTO "regsvc_session" VALUES('86d4ff15f739645db5a73a69f42c8ec9',3,'user',0,'198.51.100.7','2031-05-04 12:00:00.123','2031-05-04 12:00:00.123','2031-06-03 12:00:00.000',0);
INSERT INTO "regsvc_session" VALUES('050174720d301456127260317ade4218',4,'user',0,'198.51.100.7','2031-05-04 12:00:00.123','2031-05-04 12:00:00.123','2031-06-03 12:00:00.000',0);
CREATE TABLE regsvc_setting (
  name       TEXT PRIMARY KEY, -- registration or announcement
  value      TEXT NOT NULL, -- JSON
  changed_by TEXT NOT NULL, -- who changed it
  changed_at TEXT NOT NULL -- when
);
CREATE TABLE regsvc_sync_record (
  username_key      TEXT PRIMARY KEY, -- the name in lower case, as the plugin's table keeps it
  user_id           BIGINT NULL, -- user whose player this is
  presence          TEXT NOT NULL CHECK (presence IN ('unasked', 'absent', 'present', 'gone')), -- state of the row when last in sync
  base_hash         TEXT NULL, -- last synced: password hash
  base_salt         TEXT NULL, -- last synced: salt
  base_email        TEXT NULL, -- last synced: e-mail
  base_realname     TEXT NULL, -- last synced: name as written
  base_regdate      BIGINT NULL, -- last synced: registration in the game, ms since 1970; identifies the row
  intent            TEXT NULL CHECK (intent IN ('provision', 'password', 'open')), -- the pending write to AuthMe's row
  intent_hash       TEXT NULL, -- of the row being created, or of the one taken over with open
  intent_salt       TEXT NULL, -- of the row being created
  intent_regdate    BIGINT NULL, -- of the row being created
  lock_reason       TEXT NULL, -- why the row is locked
  locked_at         TEXT NULL, -- when it was locked
  kept_hash         TEXT NULL, -- hash that the lock replaced
  kept_origin       TEXT NULL CHECK (kept_origin IN ('verified', 'unverified')), -- whether it is known to be the user's own
  kept_premium_uuid TEXT NULL, -- premium UUID that the lock removed
  kept_group        INT NULL, -- group that the lock replaced, where AuthMe has a column of groups
  kicked_login      BIGINT NULL, -- last login of the locked row for which its player was kicked, as AuthMe writes it; 0: unknown
  tombstone_hash    TEXT NULL, -- hash of the row of a deleted user
  tombstone_regdate BIGINT NULL, -- registration of that row
  tombstone_at      TEXT NULL, -- when the user was deleted
  conflict          TEXT NULL, -- fields in conflict, reported once
  plugin_state      TEXT NOT NULL, -- state shown in the user list as `plugin`
  plugin_since      TEXT NOT NULL, -- since when it is in this state
  earlier_hashes    TEXT NULL, -- short checksums of the last synced hashes before this one, newest last
  changed_at        TEXT NULL -- when the row last changed; empty once a sync run has processed it
);
INSERT INTO "regsvc_sync_record" VALUES('alice',3,'present','$SHA$f17da0a9997436ed$13c8e1f9991520e7f12f601eb690fcd0d1fc3c40225f2d842a16d0f31d0868ab',NULL,'alice@example.org','Alice',1935662400123,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'synced','2031-05-04 12:00:00.123',NULL,'2026-11-23 09:58:45.256');
INSERT INTO "regsvc_sync_record" VALUES('bob',4,'present','$SHA$371e8237793f0e54$362cdc732c44317462dd347af556a635ea60ea752efa9c7f95341f41b4afe093',NULL,'bob@example.org','Bob',1935662400123,NULL,NULL,NULL,NULL,'banned','2031-05-04 12:00:00.123','$SHA$371e8237793f0e54$362cdc732c44317462dd347af556a635ea60ea752efa9c7f95341f41b4afe093','verified',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'locked','2031-05-04 12:00:00.123',NULL,'2026-11-23 09:58:45.256');
INSERT INTO "regsvc_sync_record" VALUES('carol',5,'absent',NULL,NULL,NULL,NULL,NULL,'provision','$SHA$of$carol','salt',1900000000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent','2031-05-04 12:05:00.123',NULL,NULL);
INSERT INTO "regsvc_sync_record" VALUES('dave',6,'absent',NULL,NULL,NULL,NULL,NULL,'open','$SHA$of$dave','salt',1900000000000,'pending','2031-05-04 12:05:00.123','$SHA$9d8ea1c3ea8cbe65$d66c578ccaa6f558afb904cf1237a45d51fbde652d6275d9fd12fc69b064e731','unverified',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'conflict','2031-05-04 12:05:00.123',NULL,'2031-05-04 12:10:00.123');
INSERT INTO "regsvc_sync_record" VALUES('erin',7,'absent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent','2031-05-04 12:05:00.123',NULL,'2026-11-23 09:58:45.256');
INSERT INTO "regsvc_sync_record" VALUES('frank',8,'absent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent','2031-05-04 12:05:00.123',NULL,'2026-11-23 09:58:45.256');
INSERT INTO "regsvc_sync_record" VALUES('heidi',NULL,'absent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'$SHA$daa34c822e988643$52f1fa2fd5989b357bc9d7d0f94a7db13aa45d8468a09d3ae814b2ba2cc3545a',1935663000123,'2031-05-04 12:10:00.123',NULL,'absent','2031-05-04 12:10:00.123',NULL,'2026-11-23 09:58:45.256');
INSERT INTO "regsvc_sync_record" VALUES('ivan',1,'present','$SHA$cb0962ec787fd2ba$620fa5fb7a44078d839e9d9ecb54ec0191a4a0d22ea0e931be56688ccef7f9d2',NULL,'ivan@example.org','Ivan',1935662400123,'password','$SHA$of$ivan','salt',1900000000000,'pending','2031-05-04 12:00:00.123','$SHA$cb0962ec787fd2ba$620fa5fb7a44078d839e9d9ecb54ec0191a4a0d22ea0e931be56688ccef7f9d2','verified',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'locked','2031-05-04 12:00:00.123',NULL,NULL);
INSERT INTO "regsvc_sync_record" VALUES('judy',2,'present','$SHA$265c01fcc3c623c7$f1a79af202d4516330ae5df5f92fb695c8b562fbfb7700d9115281ff3d9ab868',NULL,NULL,'Judy',1935662400123,NULL,NULL,NULL,NULL,'pending','2031-05-04 12:00:00.123','$SHA$265c01fcc3c623c7$f1a79af202d4516330ae5df5f92fb695c8b562fbfb7700d9115281ff3d9ab868','verified',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'locked','2031-05-04 12:00:00.123',NULL,'2026-11-23 09:58:45.256');
INSERT INTO "regsvc_sync_record" VALUES('mallory',10,'present','$SHA$cd3c8268a4f8aa72$a9bb87a36302e83da388aabf42901a726c2d105f1486c41ef046db95563abbb6',NULL,'mallory@example.org','Mallory',1935663000123,NULL,NULL,NULL,NULL,'banned','2031-05-04 12:10:00.123','$SHA$cd3c8268a4f8aa72$a9bb87a36302e83da388aabf42901a726c2d105f1486c41ef046db95563abbb6','verified',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'locked','2031-05-04 12:10:00.123',NULL,'2026-11-23 09:58:45.256');
CREATE TABLE regsvc_sync_state (
  id          INTEGER PRIMARY KEY CHECK (id = 1), -- always 1
  policy      TEXT NOT NULL, -- fingerprint of config and version; if it changes, every row is compared again
  operators   TEXT NOT NULL, -- operators' names at that time, in lower case, one per line
  user_count  BIGINT NOT NULL, -- users at that time
  user_ids    BIGINT NOT NULL, -- the sum of their ids: changes if users were deleted with SQL
  newest_id   BIGINT NOT NULL, -- the newest user with a player: a newer one means that rows may have left as well
  compared_at TEXT NOT NULL -- when every row was last compared
);
INSERT INTO "regsvc_sync_state" VALUES(1,'995a7d853ae492ff5491ea9df3b3da7bf528414208d8583f342f44870f4d47ed','olivia',0,0,0,'2031-05-04 12:00:00.123');
CREATE TABLE regsvc_team_chat_event (
  id          TEXT PRIMARY KEY, -- platform and id of what it sent us, so that it counts once
  received_at TEXT NOT NULL -- when
);
CREATE TABLE regsvc_team_chat_link (
  id         INTEGER PRIMARY KEY AUTOINCREMENT, -- never reused
  user_id    BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- the member of the team
  platform   TEXT NULL, -- the chat platform; empty: the code was not used yet
  account    TEXT NULL UNIQUE, -- platform and id of the account there
  name       TEXT NULL, -- the account's name when it was linked
  code_hash  TEXT NULL UNIQUE, -- keyed hash of the code; empty once used
  created_at TEXT NOT NULL, -- when the code was made
  linked_at  TEXT NULL -- when the account was linked
);
CREATE TABLE regsvc_team_chat_message (
  id           INTEGER PRIMARY KEY AUTOINCREMENT, -- the number by which people in the chat name the application
  chat         TEXT NOT NULL, -- platform and channel
  user_id      BIGINT NOT NULL, -- id of the applicant; 0: a test
  username_key TEXT NOT NULL, -- the applicant's name in lower case
  remote_id    TEXT NULL, -- the platform's id of the message; empty: not sent yet
  shown        TEXT NOT NULL, -- checksum of what it shows; of a test: who answered
  version      TEXT NOT NULL, -- checksum of the answers when it was shown
  is_open      INTEGER NOT NULL, -- offers to decide
  changed_at   TEXT NOT NULL, -- when it was last sent or changed
  UNIQUE (chat, user_id)
);
CREATE TABLE regsvc_token (
  id           INTEGER PRIMARY KEY AUTOINCREMENT, -- never reused
  name         TEXT NOT NULL, -- as the audit log shows it
  active_name  TEXT NULL UNIQUE, -- the name in lower case; empty once revoked
  public_part  TEXT NOT NULL UNIQUE, -- the part after cmp_, by which it is found
  hash         TEXT NOT NULL, -- SHA-256 of the token, which is not stored
  permissions  TEXT NOT NULL, -- what it may do, separated by spaces
  made_by      TEXT NULL, -- its maker in lower case, whose rights limit it; empty: the host, on the command line
  maker        TEXT NOT NULL, -- its maker as the audit log shows them
  created_at   TEXT NOT NULL, -- when it was made
  expires_at   TEXT NULL, -- when it ends; empty: never
  last_used_at TEXT NULL, -- when it was last used, to the hour
  revoked_at   TEXT NULL -- when it was revoked, or its maker lost the right
);
CREATE TABLE regsvc_user (
  id                 INTEGER PRIMARY KEY AUTOINCREMENT, -- never reused
  username           TEXT NOT NULL, -- as the player writes it
  username_key       TEXT NOT NULL UNIQUE, -- in lower case
  email              TEXT NULL, -- as given
  email_key          TEXT NULL UNIQUE, -- as compared: lower case, NFC, domain as A-label
  is_email_verified  INTEGER NOT NULL DEFAULT 0, -- proven by a code or a mailed link
  status             TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'rejected', 'banned')), -- desired status; operators may edit it
  applied_status     TEXT NOT NULL CHECK (applied_status IN ('pending', 'approved', 'rejected', 'banned')), -- status applied so far; written by the daemon only
  is_edited          INTEGER GENERATED ALWAYS AS (status <> applied_status) VIRTUAL, -- edited with SQL and not applied yet
  language           TEXT NULL, -- language of mails and messages
  platform           TEXT NOT NULL DEFAULT 'java' CHECK (platform IN ('java', 'bedrock')), -- edition of the game
  password_hash      TEXT NULL, -- the password set through us, until the game changes it
  password_salt      TEXT NULL, -- salt, if the algorithm stores it separately
  password_algorithm TEXT NULL, -- AuthMe's name for the algorithm, or PASSLIB
  password_set_at    TEXT NULL, -- when the password was set
  token_generation   INTEGER NOT NULL DEFAULT 0, -- incremented to end every session
  origin             TEXT NOT NULL CHECK (origin IN ('registered', 'adopted', 'created')), -- how the user was created
  registration_ip    TEXT NULL, -- the client's address
  created_at         TEXT NOT NULL, -- when the user registered, here or in the game
  reason             TEXT NULL, -- reason of the last review; the user sees it
  reviewed_by        TEXT NULL, -- operator who decided
  reviewed_at        TEXT NULL, -- when it was decided
  banned_from        TEXT NULL CHECK (banned_from IN ('pending', 'approved', 'rejected')), -- status to return to when the ban ends
  ban_expires_at     TEXT NULL, -- end of the ban; empty: permanent
  last_login_at      TEXT NULL -- last login on the web
, totp_step BIGINT NULL, changed_at TEXT NULL, totp_nonce TEXT NULL, totp_enabled_at TEXT NULL, may_reapply INTEGER NOT NULL DEFAULT 0, role TEXT NULL CHECK (role IN ('reviewer', 'moderator')), applied_role TEXT NULL, look_key TEXT GENERATED ALWAYS AS (REPLACE(REPLACE(REPLACE(username_key, 'i', 'l'), '1', 'l'), '0', 'o')) VIRTUAL, invited_by TEXT NULL, asked_at TEXT NULL, answered_at TEXT NULL, is_asked INTEGER GENERATED ALWAYS AS (asked_at IS NOT NULL) VIRTUAL);
INSERT INTO "regsvc_user" VALUES(1,'Ivan','ivan','ivan@example.org','ivan@example.org',0,'pending','pending',NULL,'java',NULL,NULL,NULL,NULL,0,'adopted',NULL,'2031-05-04 12:00:00.123',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-23 09:58:45.256',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "regsvc_user" VALUES(2,'Judy','judy',NULL,NULL,0,'pending','pending',NULL,'java',NULL,NULL,NULL,NULL,0,'adopted',NULL,'2031-05-04 12:00:00.123',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-23 09:58:45.256',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "regsvc_user" VALUES(3,'Alice','alice','alice@example.org','alice@example.org',1,'approved','approved','en','java','$SHA$f17da0a9997436ed$13c8e1f9991520e7f12f601eb690fcd0d1fc3c40225f2d842a16d0f31d0868ab',NULL,'SHA256','2031-05-04 12:00:00.123',0,'registered','198.51.100.7','2031-05-04 12:00:00.123',NULL,'Olivia','2031-05-04 12:00:00.123',NULL,NULL,'2031-05-04 12:00:00.123',64000000,NULL,'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn','2031-05-04 12:10:00.123',0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "regsvc_user" VALUES(4,'Bob','bob','bob@example.org','bob@example.org',1,'banned','banned','en','java','$SHA$371e8237793f0e54$362cdc732c44317462dd347af556a635ea60ea752efa9c7f95341f41b4afe093',NULL,'SHA256','2031-05-04 12:00:00.123',1,'registered','198.51.100.7','2031-05-04 12:00:00.123','griefing','Olivia','2031-05-04 12:00:00.123','approved','2031-06-03 12:00:00.123','2031-05-04 12:00:00.123',NULL,'2026-11-23 09:58:45.256',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "regsvc_user" VALUES(5,'Carol','carol','carol@example.org','carol@example.org',1,'pending','pending','en','java',NULL,NULL,NULL,NULL,0,'registered','198.51.100.7','2031-05-04 12:05:00.123',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-23 09:58:45.256',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "regsvc_user" VALUES(6,'Dave','dave','dave@example.org','dave@example.org',1,'pending','pending','en','java','$SHA$53d1d1a0831b4976$79f9dbea2cae4d5893e0e499874b641034a9bd4fe0819a53508ad5503d23fe48',NULL,'SHA256','2031-05-04 12:05:00.123',0,'registered','198.51.100.7','2031-05-04 12:05:00.123',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-23 09:58:45.256',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "regsvc_user" VALUES(7,'Erin','erin','erin@example.org','erin@example.org',1,'rejected','rejected','en','java','$SHA$84f82bbb0552cd0d$0232d91333281f2f839746f793b3cf844d9e00bd35b4a1581492a6cff79c14d2',NULL,'SHA256','2031-05-04 12:05:00.123',0,'registered','198.51.100.7','2031-05-04 12:05:00.123','too young','Olivia','2031-05-04 12:05:00.123',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "regsvc_user" VALUES(8,'Frank','frank','frank@example.org','frank@example.org',1,'approved','approved','en','java',NULL,NULL,NULL,NULL,0,'registered','198.51.100.7','2031-05-04 12:05:00.123',NULL,'Olivia','2031-05-04 12:05:00.123',NULL,NULL,NULL,NULL,'2026-11-23 09:58:45.256',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "regsvc_user" VALUES(10,'Mallory','mallory','mallory@example.org','mallory@example.org',1,'banned','banned','en','java','$SHA$cd3c8268a4f8aa72$a9bb87a36302e83da388aabf42901a726c2d105f1486c41ef046db95563abbb6',NULL,'SHA256','2031-05-04 12:10:00.123',1,'registered','198.51.100.7','2031-05-04 12:10:00.123','naïve “quotes”; it''s 50 % \ backslash','Olivia','2031-05-04 12:10:00.123','approved',NULL,NULL,NULL,'2026-11-23 09:58:45.256',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE regsvc_verification (
  id             INTEGER PRIMARY KEY AUTOINCREMENT, -- the code is derived from it
  email_key      TEXT NOT NULL, -- address it was mailed to
  purpose        TEXT NOT NULL, -- register, change_email, unlink
  nonce          TEXT NOT NULL, -- the code is derived from it too
  tries          INTEGER NOT NULL DEFAULT 0, -- wrong attempts
  created_at     TEXT NOT NULL, -- when it was requested
  handed_over_at TEXT NULL, -- when the mail server accepted it
  redeemed_at    TEXT NULL -- when it was used
, client TEXT NOT NULL DEFAULT '', other_tries INTEGER NOT NULL DEFAULT 0);
INSERT INTO "regsvc_verification" VALUES(1,'alice@example.org','register','0a249bea4f55801c7adbdfd2f4a4da75',0,'2031-05-04 12:00:00.123',NULL,'2031-05-04 12:00:00.123','198.51.100.7',0);
CREATE INDEX regsvc_user_status ON regsvc_user (status, id);
CREATE INDEX regsvc_user_ban_expires ON regsvc_user (ban_expires_at);
CREATE INDEX regsvc_review_username_key ON regsvc_review (username_key);
CREATE INDEX regsvc_session_user_id ON regsvc_session (user_id);
CREATE INDEX regsvc_session_expires_at ON regsvc_session (expires_at);
CREATE INDEX regsvc_verification_email_key ON regsvc_verification (email_key, purpose);
CREATE INDEX regsvc_verification_created_at ON regsvc_verification (created_at);
CREATE INDEX regsvc_link_user_id ON regsvc_link (user_id);
CREATE INDEX regsvc_outbox_next_attempt_at ON regsvc_outbox (next_attempt_at);
CREATE INDEX regsvc_outbox_recipient_key ON regsvc_outbox (recipient_key);
CREATE INDEX regsvc_rate_limit_ends_at ON regsvc_rate_limit (ends_at);
CREATE INDEX regsvc_audit_target ON regsvc_audit (target, id);
CREATE INDEX regsvc_audit_created_at ON regsvc_audit (created_at);
CREATE TRIGGER regsvc_audit_is_not_deleted BEFORE DELETE ON regsvc_audit
        WHEN NOT EXISTS (SELECT 1 FROM regsvc_installation WHERE purging_audit_before > OLD.created_at)
        BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER regsvc_audit_is_not_changed BEFORE UPDATE ON regsvc_audit
        WHEN NEW.id IS NOT OLD.id OR NEW.action IS NOT OLD.action OR NEW.operator IS NOT OLD.operator
          OR NEW.target IS NOT OLD.target OR NEW.detail IS NOT OLD.detail OR NEW.tally IS NOT OLD.tally
          OR NEW.created_at IS NOT OLD.created_at OR NEW.occurrences < OLD.occurrences
          OR (NEW.occurrences > OLD.occurrences AND OLD.tally IS NULL)
          OR (NEW.ip IS NOT OLD.ip AND (NEW.ip IS NOT NULL OR NOT EXISTS
               (SELECT 1 FROM regsvc_installation WHERE purging_audit_before > OLD.created_at)))
        BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE INDEX regsvc_questionnaire_result_expires_at ON regsvc_questionnaire_result (expires_at);
CREATE INDEX regsvc_chat_request_session_jti ON regsvc_chat_request (session_jti);
CREATE INDEX regsvc_chat_request_created_at ON regsvc_chat_request (created_at);
CREATE INDEX regsvc_outbox_outcome ON regsvc_outbox (outcome, id);
CREATE INDEX regsvc_outbox_user_id ON regsvc_outbox (user_id, id);
CREATE INDEX regsvc_review_email_key ON regsvc_review (email_key);
CREATE TRIGGER regsvc_user_is_changed AFTER UPDATE ON regsvc_user
        WHEN NEW.changed_at IS OLD.changed_at
        BEGIN UPDATE regsvc_user SET changed_at = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE id = NEW.id; END;
CREATE TRIGGER regsvc_user_is_new AFTER INSERT ON regsvc_user
        WHEN NEW.changed_at IS NULL AND NOT (NEW.origin = 'adopted' AND NEW.status = 'approved')
        BEGIN UPDATE regsvc_user SET changed_at = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE id = NEW.id; END;
CREATE INDEX regsvc_user_changed_at ON regsvc_user (changed_at) WHERE changed_at IS NOT NULL;
CREATE TRIGGER regsvc_user_has_dates BEFORE INSERT ON regsvc_user
        BEGIN SELECT CASE WHEN TRUE AND (NEW.created_at IS NOT NULL AND (NEW.created_at < '0001' OR length(NEW.created_at) NOT IN (10, 16, 19, 23) OR substr(strftime('%Y-%m-%d %H:%M:%f', NEW.created_at, '+0 days'), 1, length(NEW.created_at)) IS NOT NEW.created_at)) THEN RAISE(ABORT, 'created_at takes a date such as 2031-06-01 or 2031-06-01 18:30:00, in UTC')
WHEN TRUE AND (NEW.password_set_at IS NOT NULL AND (NEW.password_set_at < '0001' OR length(NEW.password_set_at) NOT IN (10, 16, 19, 23) OR substr(strftime('%Y-%m-%d %H:%M:%f', NEW.password_set_at, '+0 days'), 1, length(NEW.password_set_at)) IS NOT NEW.password_set_at)) THEN RAISE(ABORT, 'password_set_at takes a date such as 2031-06-01 or 2031-06-01 18:30:00, in UTC')
WHEN TRUE AND (NEW.reviewed_at IS NOT NULL AND (NEW.reviewed_at < '0001' OR length(NEW.reviewed_at) NOT IN (10, 16, 19, 23) OR substr(strftime('%Y-%m-%d %H:%M:%f', NEW.reviewed_at, '+0 days'), 1, length(NEW.reviewed_at)) IS NOT NEW.reviewed_at)) THEN RAISE(ABORT, 'reviewed_at takes a date such as 2031-06-01 or 2031-06-01 18:30:00, in UTC')
WHEN TRUE AND (NEW.ban_expires_at IS NOT NULL AND (NEW.ban_expires_at < '0001' OR length(NEW.ban_expires_at) NOT IN (10, 16, 19, 23) OR substr(strftime('%Y-%m-%d %H:%M:%f', NEW.ban_expires_at, '+0 days'), 1, length(NEW.ban_expires_at)) IS NOT NEW.ban_expires_at)) THEN RAISE(ABORT, 'ban_expires_at takes a date such as 2031-06-01 or 2031-06-01 18:30:00, in UTC')
WHEN TRUE AND (NEW.last_login_at IS NOT NULL AND (NEW.last_login_at < '0001' OR length(NEW.last_login_at) NOT IN (10, 16, 19, 23) OR substr(strftime('%Y-%m-%d %H:%M:%f', NEW.last_login_at, '+0 days'), 1, length(NEW.last_login_at)) IS NOT NEW.last_login_at)) THEN RAISE(ABORT, 'last_login_at takes a date such as 2031-06-01 or 2031-06-01 18:30:00, in UTC')
WHEN TRUE AND (NEW.changed_at IS NOT NULL AND (NEW.changed_at < '0001' OR length(NEW.changed_at) NOT IN (10, 16, 19, 23) OR substr(strftime('%Y-%m-%d %H:%M:%f', NEW.changed_at, '+0 days'), 1, length(NEW.changed_at)) IS NOT NEW.changed_at)) THEN RAISE(ABORT, 'changed_at takes a date such as 2031-06-01 or 2031-06-01 18:30:00, in UTC') END; END;
CREATE TRIGGER regsvc_user_gets_dates BEFORE UPDATE OF created_at, password_set_at, reviewed_at, ban_expires_at, last_login_at, changed_at ON regsvc_user
        BEGIN SELECT CASE WHEN NEW.created_at IS NOT OLD.created_at AND (NEW.created_at IS NOT NULL AND (NEW.created_at < '0001' OR length(NEW.created_at) NOT IN (10, 16, 19, 23) OR substr(strftime('%Y-%m-%d %H:%M:%f', NEW.created_at, '+0 days'), 1, length(NEW.created_at)) IS NOT NEW.created_at)) THEN RAISE(ABORT, 'created_at takes a date such as 2031-06-01 or 2031-06-01 18:30:00, in UTC')
WHEN NEW.password_set_at IS NOT OLD.password_set_at AND (NEW.password_set_at IS NOT NULL AND (NEW.password_set_at < '0001' OR length(NEW.password_set_at) NOT IN (10, 16, 19, 23) OR substr(strftime('%Y-%m-%d %H:%M:%f', NEW.password_set_at, '+0 days'), 1, length(NEW.password_set_at)) IS NOT NEW.password_set_at)) THEN RAISE(ABORT, 'password_set_at takes a date such as 2031-06-01 or 2031-06-01 18:30:00, in UTC')
WHEN NEW.reviewed_at IS NOT OLD.reviewed_at AND (NEW.reviewed_at IS NOT NULL AND (NEW.reviewed_at < '0001' OR length(NEW.reviewed_at) NOT IN (10, 16, 19, 23) OR substr(strftime('%Y-%m-%d %H:%M:%f', NEW.reviewed_at, '+0 days'), 1, length(NEW.reviewed_at)) IS NOT NEW.reviewed_at)) THEN RAISE(ABORT, 'reviewed_at takes a date such as 2031-06-01 or 2031-06-01 18:30:00, in UTC')
WHEN NEW.ban_expires_at IS NOT OLD.ban_expires_at AND (NEW.ban_expires_at IS NOT NULL AND (NEW.ban_expires_at < '0001' OR length(NEW.ban_expires_at) NOT IN (10, 16, 19, 23) OR substr(strftime('%Y-%m-%d %H:%M:%f', NEW.ban_expires_at, '+0 days'), 1, length(NEW.ban_expires_at)) IS NOT NEW.ban_expires_at)) THEN RAISE(ABORT, 'ban_expires_at takes a date such as 2031-06-01 or 2031-06-01 18:30:00, in UTC')
WHEN NEW.last_login_at IS NOT OLD.last_login_at AND (NEW.last_login_at IS NOT NULL AND (NEW.last_login_at < '0001' OR length(NEW.last_login_at) NOT IN (10, 16, 19, 23) OR substr(strftime('%Y-%m-%d %H:%M:%f', NEW.last_login_at, '+0 days'), 1, length(NEW.last_login_at)) IS NOT NEW.last_login_at)) THEN RAISE(ABORT, 'last_login_at takes a date such as 2031-06-01 or 2031-06-01 18:30:00, in UTC')
WHEN NEW.changed_at IS NOT OLD.changed_at AND (NEW.changed_at IS NOT NULL AND (NEW.changed_at < '0001' OR length(NEW.changed_at) NOT IN (10, 16, 19, 23) OR substr(strftime('%Y-%m-%d %H:%M:%f', NEW.changed_at, '+0 days'), 1, length(NEW.changed_at)) IS NOT NEW.changed_at)) THEN RAISE(ABORT, 'changed_at takes a date such as 2031-06-01 or 2031-06-01 18:30:00, in UTC') END; END;
CREATE INDEX regsvc_known_client_client ON regsvc_known_client (client, last_login_at);
CREATE INDEX regsvc_sync_record_user_id ON regsvc_sync_record (user_id);
CREATE INDEX regsvc_sync_record_changed_at ON regsvc_sync_record (changed_at) WHERE changed_at IS NOT NULL;
CREATE TRIGGER regsvc_user_is_gone AFTER DELETE ON regsvc_user
        BEGIN UPDATE regsvc_sync_record SET changed_at = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE user_id = OLD.id; END;
CREATE TRIGGER regsvc_sync_record_is_new AFTER INSERT ON regsvc_sync_record
        WHEN NEW.changed_at IS NULL AND NOT (NEW.presence = 'present' AND NEW.locked_at IS NULL)
        BEGIN UPDATE regsvc_sync_record SET changed_at = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE username_key = NEW.username_key; END;
CREATE TRIGGER regsvc_sync_record_is_changed AFTER UPDATE ON regsvc_sync_record
        WHEN NEW.changed_at IS OLD.changed_at
        BEGIN UPDATE regsvc_sync_record SET changed_at = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE username_key = NEW.username_key; END;
CREATE VIEW regsvc_v_users AS -- all users with the state of their player
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
LEFT JOIN regsvc_sync_record p ON p.username_key = u.username_key;
CREATE VIEW regsvc_v_sync_drift AS -- differences between users and players after the last sync run
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
  p.intent AS intent, -- the pending write to AuthMe's row
  p.lock_reason AS lock_reason, -- why the row is locked
  p.locked_at AS locked_at -- when it was locked
FROM regsvc_sync_record p
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
  'the user was deleted in SQL and the player is still there: the next run removes it, or a brake holds it', NULL, p.intent, p.lock_reason, p.locked_at
FROM regsvc_sync_record p
LEFT JOIN regsvc_user u ON u.id = p.user_id
WHERE p.user_id IS NOT NULL AND u.id IS NULL AND p.tombstone_at IS NULL;
CREATE VIEW regsvc_v_recent_audit AS -- the newest 1000 entries of the audit log
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
CREATE VIEW regsvc_v_outbox AS -- outgoing messages and their results
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
CREATE INDEX regsvc_outbox_template ON regsvc_outbox (template, next_attempt_at);
CREATE INDEX regsvc_sync_record_plugin_state ON regsvc_sync_record (plugin_state, user_id, username_key);
CREATE INDEX regsvc_user_status_name ON regsvc_user (status, username_key);
CREATE INDEX regsvc_audit_action_time ON regsvc_audit (action, created_at, id);
CREATE INDEX regsvc_audit_operator_time ON regsvc_audit (operator, created_at, id, action);
CREATE INDEX regsvc_allowlist_state ON regsvc_allowlist (state, reason);
CREATE INDEX regsvc_allowlist_shown_as ON regsvc_allowlist (shown_as, user_id, username_key);
CREATE INDEX regsvc_user_role ON regsvc_user (role);
CREATE INDEX regsvc_user_registration_ip ON regsvc_user (registration_ip);
CREATE INDEX regsvc_user_applied_role ON regsvc_user (applied_role);
CREATE INDEX regsvc_note_username_key ON regsvc_note (username_key);
CREATE INDEX regsvc_note_email_key ON regsvc_note (email_key);
CREATE INDEX regsvc_user_look_key ON regsvc_user (look_key);
CREATE INDEX regsvc_user_status_ip ON regsvc_user (status, registration_ip);
CREATE INDEX regsvc_player_address_address ON regsvc_player_address (address);
CREATE INDEX regsvc_player_address_seen_at ON regsvc_player_address (seen_at);
CREATE INDEX regsvc_user_waiting ON regsvc_user (status, is_asked, id);
CREATE INDEX regsvc_user_asked_at ON regsvc_user (asked_at);
CREATE INDEX regsvc_question_username_key ON regsvc_question (username_key);
CREATE INDEX regsvc_question_email_key ON regsvc_question (email_key);
CREATE INDEX regsvc_review_reviewed_at ON regsvc_review (reviewed_at, transition, operator);
CREATE VIEW regsvc_v_questions AS -- what the team asked applicants, and what they answered
SELECT
  q.id AS id, -- in order
  q.user_id AS user_id, -- id of the user at that time
  q.username_key AS username_key, -- in lower case
  q.author AS author, -- who asked
  q.question AS question, -- what the team asked
  q.asked_at AS asked_at, -- when
  q.answer AS answer, -- what the applicant answered
  q.answered_at AS answered_at, -- when; empty: not answered
  CASE WHEN u.status = 'pending' AND u.asked_at IS NOT NULL AND q.answered_at IS NULL THEN 1 ELSE 0 END AS is_open -- the application waits for the answer
FROM regsvc_question q
LEFT JOIN regsvc_user u ON u.id = q.user_id;
CREATE VIEW regsvc_v_review_queue AS -- users waiting for a review
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
  CASE WHEN u.asked_at IS NULL THEN 'review' ELSE 'applicant' END AS waiting_for, -- applicant: has to answer a question first
  u.answered_at AS answered_at, -- when the applicant answered the last question
  COALESCE(p.plugin_state, 'pending') AS plugin_state, -- conflict: the game has a row of this name that belongs to another person
  p.plugin_since AS plugin_since, -- since when it is in this state
  (SELECT COUNT(*) FROM regsvc_review r
    WHERE r.username_key = u.username_key AND r.transition = 'reject') AS times_rejected, -- earlier rejections of this name
  (SELECT MAX(r.reviewed_at) FROM regsvc_review r
    WHERE r.username_key = u.username_key AND r.transition = 'reject') AS last_rejected_at -- last rejection
FROM regsvc_user u
LEFT JOIN regsvc_sync_record p ON p.username_key = u.username_key
WHERE u.status = 'pending';
CREATE INDEX regsvc_team_chat_message_username_key ON regsvc_team_chat_message (username_key);
CREATE INDEX regsvc_team_chat_link_user_id ON regsvc_team_chat_link (user_id);
CREATE INDEX regsvc_team_chat_event_received_at ON regsvc_team_chat_event (received_at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('regsvc_user',10);
INSERT INTO "sqlite_sequence" VALUES('regsvc_audit',27);
INSERT INTO "sqlite_sequence" VALUES('regsvc_verification',8);
INSERT INTO "sqlite_sequence" VALUES('regsvc_outbox',18);
INSERT INTO "sqlite_sequence" VALUES('regsvc_review',9);
INSERT INTO "sqlite_sequence" VALUES('regsvc_known_client',2);
INSERT INTO "sqlite_sequence" VALUES('regsvc_recovery_code',2);
INSERT INTO "sqlite_sequence" VALUES('regsvc_link',1);
INSERT INTO "sqlite_sequence" VALUES('regsvc_chat_request',1);
INSERT INTO "sqlite_sequence" VALUES('regsvc_chat_link',1);
INSERT INTO "sqlite_sequence" VALUES('regsvc_questionnaire_result',1);
INSERT INTO "sqlite_sequence" VALUES('regsvc_rate_limit',1);
COMMIT;
