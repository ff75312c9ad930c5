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
INSERT INTO "regsvc_allowlist" VALUES('mia_builds','Mia_builds','add',NULL,'no_uuid','2026-11-20 12:00:00.000',12);
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
INSERT INTO "regsvc_audit" VALUES(1,'user.registered','Sam_the_Mason','Sam_the_Mason',NULL,'198.18.20.20',NULL,1,'2026-11-16 20:52:39.853');
INSERT INTO "regsvc_audit" VALUES(2,'user.approved','Olivia','Sam_the_Mason','{"statusBefore":"pending","reason":"Welcome! The bridge is yours."}',NULL,NULL,1,'2026-11-16 23:52:39.853');
INSERT INTO "regsvc_audit" VALUES(3,'user.registered','Oda_1987','Oda_1987',NULL,'198.18.21.21',NULL,1,'2026-11-19 20:52:39.853');
INSERT INTO "regsvc_audit" VALUES(4,'user.approved','Olivia','Oda_1987','{"statusBefore":"pending"}',NULL,NULL,1,'2026-11-20 02:52:39.853');
INSERT INTO "regsvc_audit" VALUES(5,'user.registered','xX_Blaze_Xx','xX_Blaze_Xx',NULL,'203.0.113.40',NULL,1,'2026-11-20 20:52:39.853');
INSERT INTO "regsvc_audit" VALUES(6,'user.approved','Olivia','xX_Blaze_Xx','{"statusBefore":"pending"}',NULL,NULL,1,'2026-11-21 01:52:39.853');
INSERT INTO "regsvc_audit" VALUES(7,'user.banned','Olivia','xX_Blaze_Xx','{"statusBefore":"approved","reason":"ban.griefing"}',NULL,NULL,1,'2026-11-25 20:52:39.853');
INSERT INTO "regsvc_audit" VALUES(8,'user.registered','Lena_Holz','Lena_Holz',NULL,'198.18.23.23',NULL,1,'2026-11-22 20:52:39.853');
INSERT INTO "regsvc_audit" VALUES(9,'user.approved','Olivia','Lena_Holz','{"statusBefore":"pending"}',NULL,NULL,1,'2026-11-22 22:52:39.853');
INSERT INTO "regsvc_audit" VALUES(10,'user.registered','Theo_short','Theo_short',NULL,'198.18.24.24',NULL,1,'2026-11-24 20:52:39.853');
INSERT INTO "regsvc_audit" VALUES(11,'user.rejected','Olivia','Theo_short','{"statusBefore":"pending","reason":"reject.short_answers"}',NULL,NULL,1,'2026-11-25 00:52:39.853');
INSERT INTO "regsvc_audit" VALUES(12,'user.registered','Theo_short','Theo_short',NULL,'198.18.25.25',NULL,1,'2026-11-27 18:52:39.853');
INSERT INTO "regsvc_audit" VALUES(13,'user.registered','Blaze_is_back','Blaze_is_back',NULL,'203.0.113.40',NULL,1,'2026-11-28 00:52:39.853');
INSERT INTO "regsvc_audit" VALUES(14,'user.registered','Pixel_Papa','Pixel_Papa',NULL,'198.18.27.27',NULL,1,'2026-11-28 05:52:39.853');
INSERT INTO "regsvc_audit" VALUES(15,'user.registered','xiaolin_mc','xiaolin_mc',NULL,'198.18.28.28',NULL,1,'2026-11-28 11:52:39.853');
INSERT INTO "regsvc_audit" VALUES(16,'user.registered','.BeaOnThePhone','.BeaOnThePhone',NULL,'198.18.29.29',NULL,1,'2026-11-28 13:52:39.853');
INSERT INTO "regsvc_audit" VALUES(17,'user.registered','Noe_du_phare','Noe_du_phare',NULL,'198.18.30.30',NULL,1,'2026-11-28 15:52:39.853');
INSERT INTO "regsvc_audit" VALUES(18,'user.registered','Mia_builds','Mia_builds',NULL,'198.18.31.31',NULL,1,'2026-11-28 18:52:39.853');
INSERT INTO "regsvc_audit" VALUES(19,'token.created','cli:root',NULL,'{"name":"dashboard","permissions":"users.read"}',NULL,NULL,1,'2026-11-28 20:52:42.001');
INSERT INTO "regsvc_audit" VALUES(20,'token.created','cli:root',NULL,'{"name":"bot","permissions":"users.read users.review"}',NULL,NULL,1,'2026-11-28 20:52:42.221');
INSERT INTO "regsvc_audit" VALUES(21,'invitation.created','cli:root',NULL,'{"id":1,"uses":3,"grants":""}',NULL,NULL,1,'2026-11-28 20:52:42.323');
INSERT INTO "regsvc_audit" VALUES(22,'user.note_added','cli:root','Sam_the_Mason',NULL,NULL,NULL,1,'2026-11-28 20:52:42.445');
INSERT INTO "regsvc_audit" VALUES(23,'user.asked','cli:root','Theo_short',NULL,NULL,NULL,1,'2026-11-28 20:52:42.549');
INSERT INTO "regsvc_audit" VALUES(24,'user.role_changed','cli:root','Sam_the_Mason','{"roleBefore":null,"role":"moderator"}',NULL,NULL,1,'2026-11-28 20:52:42.716');
INSERT INTO "regsvc_audit" VALUES(25,'user.role_changed','cli:root','Oda_1987','{"roleBefore":null,"role":"reviewer"}',NULL,NULL,1,'2026-11-28 20:52:42.818');
INSERT INTO "regsvc_audit" VALUES(26,'user.password_link_created','cli:root','Oda_1987',NULL,NULL,NULL,1,'2026-11-28 20:52:42.981');
INSERT INTO "regsvc_audit" VALUES(27,'user.approved','cli:root','Blaze_is_back','{"statusBefore":"pending"}',NULL,NULL,1,'2026-11-28 20:52:43.046');
INSERT INTO "regsvc_audit" VALUES(28,'user.approved','cli:root','Pixel_Papa','{"statusBefore":"pending"}',NULL,NULL,1,'2026-11-28 20:52:43.170');
INSERT INTO "regsvc_audit" VALUES(29,'user.approved','cli:root','xiaolin_mc','{"statusBefore":"pending"}',NULL,NULL,1,'2026-11-28 20:52:43.333');
INSERT INTO "regsvc_audit" VALUES(30,'user.banned','cli:root','Blaze_is_back','{"statusBefore":"approved","reason":"Griefing","expiresAt":1873659163446}',NULL,NULL,1,'2026-11-28 20:52:43.476');
INSERT INTO "regsvc_audit" VALUES(31,'user.rejected','cli:root','.BeaOnThePhone','{"statusBefore":"pending","reason":"Short answers"}',NULL,NULL,1,'2026-11-28 20:52:43.721');
INSERT INTO "regsvc_audit" VALUES(32,'user.deleted','cli:root','xiaolin_mc','{"statusBefore":"approved"}',NULL,NULL,1,'2026-11-28 20:52:43.920');
INSERT INTO "regsvc_audit" VALUES(33,'settings.changed','cli:root',NULL,'{"setting":"registration","open":false,"opensAt":1798491164009}',NULL,NULL,1,'2026-11-28 20:52:44.009');
INSERT INTO "regsvc_audit" VALUES(34,'user.adopted','sync','Olivia','{"status":"approved"}',NULL,NULL,1,'2026-11-28 20:52:44.199');
INSERT INTO "regsvc_audit" VALUES(35,'sync.run','sync',NULL,'{"scanned":7,"adopted":1}',NULL,NULL,1,'2026-11-28 20:52:44.260');
CREATE TABLE regsvc_bucket (
  bucket    INTEGER PRIMARY KEY, -- neighbouring ids of the plugin's table, or names with the same CRC32 modulo 65536
  row_count INTEGER NOT NULL, -- rows of the plugin's table in it
  checksum  BIGINT NOT NULL -- checksum of the columns that the sync compares
);
INSERT INTO "regsvc_bucket" VALUES(7,3,123456789);
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
INSERT INTO "regsvc_chat_link" VALUES(1,1,NULL,'discord','80351110224678912','sam','0',NULL,'Sam','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','2026-02-03 10:00:00.000');
CREATE TABLE regsvc_chat_request (
  id          INTEGER PRIMARY KEY AUTOINCREMENT, -- in order
  state_hash  TEXT NOT NULL UNIQUE, -- hash of the state, which itself is not stored
  token_hash  TEXT NOT NULL, -- hash of the link token of the browser that started it
  session_jti TEXT NULL REFERENCES regsvc_session (jti) ON DELETE CASCADE, -- session that started it; empty without a login
  created_at  TEXT NOT NULL -- when it was started
);
INSERT INTO "regsvc_chat_request" VALUES(1,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',NULL,'2026-11-28 10:00:00.000');
CREATE TABLE regsvc_installation (
  id                      INTEGER PRIMARY KEY CHECK (id = 1), -- always 1
  installation_id         TEXT NOT NULL, -- id of this installation; also in the state directory
  home                    TEXT NOT NULL, -- name of this database, as the daemon resolved it
  key_fingerprint         TEXT NOT NULL, -- fingerprint of the installation key, to detect another one
  first_started_at        TEXT NOT NULL, -- players registered before then existed before the companion
  purging_audit_before    TEXT NULL, -- set while `companion purge` removes old audit entries
  digested_at             TEXT NULL, -- when the last digest was mailed to admins
  digested_user_id        BIGINT NULL, -- newest user in the last digest
  signing_key_fingerprint TEXT NULL -- of the key that signs access tokens, of the last daemon started
, players_table TEXT NULL);
INSERT INTO "regsvc_installation" VALUES(1,'68e1c586-4600-4e84-841c-9412dd2126a9','sqlite:companion.db','489880b0aae1c395','2026-11-28 20:52:39.853',NULL,NULL,NULL,NULL,NULL);
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
INSERT INTO "regsvc_invitation" VALUES(1,'721f9975a2bc1db203b8a836b1acc5e0','',3,0,NULL,'cli:root','2026-11-28 20:52:42.323','2026-12-28 20:52:42.323',NULL);
CREATE TABLE regsvc_known_client (
  id            INTEGER PRIMARY KEY AUTOINCREMENT, -- in order
  user_id       BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- user who logged in
  client        TEXT NOT NULL, -- IPv4 address, or /64 of an IPv6 address
  last_login_at TEXT NOT NULL, -- last successful login
  UNIQUE (user_id, client)
);
INSERT INTO "regsvc_known_client" VALUES(1,2,'203.0.113.0/24','2026-10-01 10:00:00.000');
CREATE TABLE regsvc_lease (
  name       TEXT PRIMARY KEY, -- task that only one process may do
  holder     TEXT NOT NULL, -- installation and process
  expires_at TEXT NOT NULL -- by the database's clock
);
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
INSERT INTO "regsvc_link" VALUES(1,2,'reset','','5e8dafa8fb22efec3824eb6f9d6353c1','2026-11-28 20:52:42.960','2026-11-28 21:52:42.960',NULL,NULL,'cli:root');
CREATE TABLE regsvc_migration (
  number     INTEGER PRIMARY KEY, -- of the migration
  name       TEXT NOT NULL, -- of the migration
  applied_at TEXT NOT NULL -- when
);
INSERT INTO "regsvc_migration" VALUES(100,'baseline','2026-11-28 20:52:39.853');
INSERT INTO "regsvc_migration" VALUES(101,'rights','2026-11-28 20:52:39.853');
INSERT INTO "regsvc_migration" VALUES(102,'players_table','2026-11-28 20:52:39.853');
INSERT INTO "regsvc_migration" VALUES(103,'urgent_mails','2026-11-28 20:52:39.853');
INSERT INTO "regsvc_migration" VALUES(104,'lists','2026-11-28 20:52:39.853');
INSERT INTO "regsvc_migration" VALUES(105,'allowlist','2026-11-28 20:52:39.853');
INSERT INTO "regsvc_migration" VALUES(106,'team','2026-11-28 20:52:39.853');
INSERT INTO "regsvc_migration" VALUES(107,'applications','2026-11-28 20:52:39.853');
INSERT INTO "regsvc_migration" VALUES(108,'team_chat','2026-11-28 20:52:39.853');
CREATE TABLE regsvc_note (
  id           INTEGER PRIMARY KEY AUTOINCREMENT, -- in order
  user_id      BIGINT NOT NULL, -- id of the user at that time
  username_key TEXT NOT NULL, -- in lower case
  email_key    TEXT NULL, -- the user's proven address at that time, normalized
  author       TEXT NOT NULL, -- who wrote it
  text         TEXT NOT NULL, -- what the team wrote; never shown to players, but in their export
  created_at   TEXT NOT NULL -- when
);
INSERT INTO "regsvc_note" VALUES(1,1,'sam_the_mason','sam_the_mason@example.org','cli:root','Plays with Bob; naïve “quotes”.','2026-11-28 20:52:42.445');
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
  last_error      TEXT NULL, -- error of the last failed attempt
  payload         TEXT NULL -- JSON body of a webhook call; contains no secrets
);
INSERT INTO "regsvc_outbox" VALUES(1,'mail','received','sam_the_mason@example.org','sam_the_mason@example.org','en',1,NULL,NULL,1,'2026-11-16 20:52:39.853',NULL,'2026-11-28 20:52:39.853','sent',NULL,NULL);
INSERT INTO "regsvc_outbox" VALUES(2,'mail','approved','sam_the_mason@example.org','sam_the_mason@example.org','en',1,1,NULL,1,'2026-11-16 23:52:39.853',NULL,'2026-11-28 20:52:39.853','sent',NULL,NULL);
INSERT INTO "regsvc_outbox" VALUES(3,'mail','received','oda_1987@example.org','oda_1987@example.org','en',2,NULL,NULL,1,'2026-11-19 20:52:39.853',NULL,'2026-11-28 20:52:39.853','sent',NULL,NULL);
INSERT INTO "regsvc_outbox" VALUES(4,'mail','approved','oda_1987@example.org','oda_1987@example.org','en',2,2,NULL,1,'2026-11-20 02:52:39.853',NULL,'2026-11-28 20:52:39.853','sent',NULL,NULL);
INSERT INTO "regsvc_outbox" VALUES(5,'mail','received','xx_blaze_xx@example.org','xx_blaze_xx@example.org','en',3,NULL,NULL,1,'2026-11-20 20:52:39.853',NULL,'2026-11-28 20:52:39.853','sent',NULL,NULL);
INSERT INTO "regsvc_outbox" VALUES(6,'mail','approved','xx_blaze_xx@example.org','xx_blaze_xx@example.org','en',3,3,NULL,1,'2026-11-21 01:52:39.853',NULL,'2026-11-28 20:52:39.853','sent',NULL,NULL);
INSERT INTO "regsvc_outbox" VALUES(7,'mail','banned','xx_blaze_xx@example.org','xx_blaze_xx@example.org','en',3,4,NULL,1,'2026-11-25 20:52:39.853',NULL,'2026-11-28 20:52:39.853','sent',NULL,NULL);
INSERT INTO "regsvc_outbox" VALUES(8,'mail','received','lena_holz@example.org','lena_holz@example.org','de',4,NULL,NULL,1,'2026-11-22 20:52:39.853',NULL,'2026-11-28 20:52:39.853','sent',NULL,NULL);
CREATE TABLE regsvc_player_address (
  id      INTEGER PRIMARY KEY AUTOINCREMENT, -- in order
  user_id BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- the player's user
  source  TEXT NOT NULL CHECK (source IN ('ip', 'regip')), -- column of AuthMe's table: of the last login, or of the registration in the game
  address TEXT NOT NULL, -- the address there
  seen_at TEXT NOT NULL, -- when the player logged in, or registered
  UNIQUE (user_id, source)
);
INSERT INTO "regsvc_player_address" VALUES(1,2,'ip','203.0.113.40','2026-10-01 10:00:00.000');
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
INSERT INTO "regsvc_question" VALUES(1,6,'theo_short','theo_short@example.org','cli:root','Who showed you the server?','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["I''d rebuild the mill by the river with a working water wheel, and run a bakery in it with two friends."],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":["YouTube"],"points":null,"max_points":0,"note":"","option_ids":[]}]','2026-11-28 20:52:42.548',NULL,NULL);
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
INSERT INTO "regsvc_questionnaire_result" VALUES(1,'d57e68a5817d394ba7cbc319b448fae4',1,60,100,60,1,1,'60 of 100 points; 60 needed.
Answers to review: 2, worth up to 40 more points.','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["I build bridges. I would like to help with the one across the river."],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":["A friend"],"points":null,"max_points":0,"note":"","option_ids":[]}]','2026-11-16 20:52:39.853',NULL,NULL);
INSERT INTO "regsvc_questionnaire_result" VALUES(2,'3281a2ae2f8d5130edee5c13a9dd58d9',2,60,100,60,1,1,'60 of 100 points; 60 needed.
Answers to review: 2, worth up to 40 more points.','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["A small farm at the edge of the valley, and a market with my neighbours on Sundays."],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":["Reddit"],"points":null,"max_points":0,"note":"","option_ids":[]}]','2026-11-19 20:52:39.853',NULL,NULL);
INSERT INTO "regsvc_questionnaire_result" VALUES(3,'31855ecf6722cdb7e83d43154fc56724',3,60,100,60,1,1,'60 of 100 points; 60 needed.
Answers to review: 1, worth up to 40 more points.','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["Just want to play with everybody, I know a lot about redstone."],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":[],"points":0,"max_points":0,"note":"","option_ids":[]}]','2026-11-20 20:52:39.853',NULL,NULL);
INSERT INTO "regsvc_questionnaire_result" VALUES(4,'84b156edf778433554cdcbf44af9b3de',4,60,100,60,1,1,'60 of 100 points; 60 needed.
Answers to review: 2, worth up to 40 more points.','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["Ich baue am liebsten Fachwerkhäuser und würde gern mit anderen ein Dorf planen."],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":["Meine Schwester spielt schon hier."],"points":null,"max_points":0,"note":"","option_ids":[]}]','2026-11-22 20:52:39.853',NULL,NULL);
INSERT INTO "regsvc_questionnaire_result" VALUES(6,'0ba405d59479cb040d728f0333fd5d26',6,60,100,60,1,1,'60 of 100 points; 60 needed.
Answers to review: 2, worth up to 40 more points.','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["I''d rebuild the mill by the river with a working water wheel, and run a bakery in it with two friends."],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":["YouTube"],"points":null,"max_points":0,"note":"","option_ids":[]}]','2026-11-27 18:52:39.853',NULL,NULL);
INSERT INTO "regsvc_questionnaire_result" VALUES(7,'cfdc846cc69a96aab29af696c6066f73',7,60,100,60,1,1,'60 of 100 points; 60 needed.
Answers to review: 1, worth up to 40 more points.','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["Redstone machines for everybody, and no trouble at all this time."],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":[],"points":0,"max_points":0,"note":"","option_ids":[]}]','2026-11-28 00:52:39.853',NULL,NULL);
INSERT INTO "regsvc_questionnaire_result" VALUES(8,'9b0c10417fb7e57aeb622d55af6fd4b6',8,60,100,60,1,1,'60 of 100 points; 60 needed.
Answers to review: 2, worth up to 40 more points.','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["Playing with my two kids on weekends. We like to build treehouses together."],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":["The school''s newsletter"],"points":null,"max_points":0,"note":"","option_ids":[]}]','2026-11-28 05:52:39.853',NULL,NULL);
INSERT INTO "regsvc_questionnaire_result" VALUES(10,'7a875bf94cfca260c8faa584c8db248e',10,60,100,60,1,1,'60 of 100 points; 60 needed.
Answers to review: 2, worth up to 40 more points.','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["I play on my phone and love decorating houses. I could furnish the inn!"],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":["Discord"],"points":null,"max_points":0,"note":"","option_ids":[]}]','2026-11-28 13:52:39.853',NULL,NULL);
INSERT INTO "regsvc_questionnaire_result" VALUES(11,'893c9a0ca7a52ab13ae114effa47796a',11,60,100,60,1,1,'60 of 100 points; 60 needed.
Answers to review: 2, worth up to 40 more points.','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["Créer un phare au bout du lac et une ligne de bateaux avec les autres joueurs."],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":["Un ami de Discord"],"points":null,"max_points":0,"note":"","option_ids":[]}]','2026-11-28 15:52:39.853',NULL,NULL);
INSERT INTO "regsvc_questionnaire_result" VALUES(12,'349f2ee4cc55e172e8b34cdd2f9727e8',12,60,100,60,1,1,'60 of 100 points; 60 needed.
Answers to review: 2, worth up to 40 more points.','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["A greenhouse village: glass, vines, bees. I can show sketches if you like."],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":["A friend"],"points":null,"max_points":0,"note":"","option_ids":[]}]','2026-11-28 18:52:39.853',NULL,NULL);
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
INSERT INTO "regsvc_rate_limit" VALUES(1,'questionnaire.client','198.18.20.20',60,'2026-11-16 20:52:39.853','2026-11-16 20:53:39.853',1);
INSERT INTO "regsvc_rate_limit" VALUES(2,'questionnaire.client','198.18.20.20',86400,'2026-11-16 20:52:39.853','2026-11-17 20:52:39.853',1);
CREATE TABLE regsvc_reader (
  reader       TEXT PRIMARY KEY, -- member of the team, in lower case
  name         TEXT NOT NULL, -- as shown
  username_key TEXT NOT NULL, -- the user who is open at theirs
  seen_at      TEXT NOT NULL -- when their page last said so
);
INSERT INTO "regsvc_reader" VALUES('reader-1','Olivia','mia_builds','2026-11-27 10:00:00.000');
CREATE TABLE regsvc_recovery_code (
  id         INTEGER PRIMARY KEY AUTOINCREMENT, -- in order
  user_id    BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- user
  code_hash  TEXT NOT NULL, -- keyed hash of a code that was not used yet; the code itself is not stored
  created_at TEXT NOT NULL, -- when it was shown
  UNIQUE (user_id, code_hash)
);
INSERT INTO "regsvc_recovery_code" VALUES(1,1,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','2026-05-01 10:00:00.000');
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
  reviewed_at    TEXT NOT NULL, -- when it was decided
  email_key      TEXT NULL -- the user's address at that time, normalized for comparison
, answers TEXT NULL);
INSERT INTO "regsvc_review" VALUES(1,1,'Sam_the_Mason','sam_the_mason','approve','pending','approved','Welcome! The bridge is yours.',NULL,'Olivia','2026-11-16 23:52:39.853','sam_the_mason@example.org','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["I build bridges. I would like to help with the one across the river."],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":["A friend"],"points":null,"max_points":0,"note":"","option_ids":[]}]');
INSERT INTO "regsvc_review" VALUES(2,2,'Oda_1987','oda_1987','approve','pending','approved',NULL,NULL,'Olivia','2026-11-20 02:52:39.853','oda_1987@example.org','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["A small farm at the edge of the valley, and a market with my neighbours on Sundays."],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":["Reddit"],"points":null,"max_points":0,"note":"","option_ids":[]}]');
INSERT INTO "regsvc_review" VALUES(3,3,'xX_Blaze_Xx','xx_blaze_xx','approve','pending','approved',NULL,NULL,'Olivia','2026-11-21 01:52:39.853','xx_blaze_xx@example.org','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["Just want to play with everybody, I know a lot about redstone."],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":[],"points":0,"max_points":0,"note":"","option_ids":[]}]');
INSERT INTO "regsvc_review" VALUES(4,3,'xX_Blaze_Xx','xx_blaze_xx','ban','approved','banned','ban.griefing',NULL,'Olivia','2026-11-25 20:52:39.853','xx_blaze_xx@example.org',NULL);
INSERT INTO "regsvc_review" VALUES(5,4,'Lena_Holz','lena_holz','approve','pending','approved',NULL,NULL,'Olivia','2026-11-22 22:52:39.853','lena_holz@example.org','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["Ich baue am liebsten Fachwerkhäuser und würde gern mit anderen ein Dorf planen."],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":["Meine Schwester spielt schon hier."],"points":null,"max_points":0,"note":"","option_ids":[]}]');
INSERT INTO "regsvc_review" VALUES(6,5,'Theo_short','theo_short','reject','pending','rejected','reject.short_answers',NULL,'Olivia','2026-11-25 00:52:39.853','theo_short@example.org','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["play and build"],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":[],"points":0,"max_points":0,"note":"","option_ids":[]}]');
INSERT INTO "regsvc_review" VALUES(7,7,'Blaze_is_back','blaze_is_back','approve','pending','approved',NULL,NULL,'cli:root','2026-11-28 20:52:43.045','blaze_is_back@example.org','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["Redstone machines for everybody, and no trouble at all this time."],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":[],"points":0,"max_points":0,"note":"","option_ids":[]}]');
INSERT INTO "regsvc_review" VALUES(8,8,'Pixel_Papa','pixel_papa','approve','pending','approved',NULL,NULL,'cli:root','2026-11-28 20:52:43.169','pixel_papa@example.org','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["Playing with my two kids on weekends. We like to build treehouses together."],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":["The school''s newsletter"],"points":null,"max_points":0,"note":"","option_ids":[]}]');
INSERT INTO "regsvc_review" VALUES(9,9,'xiaolin_mc','xiaolin_mc','approve','pending','approved',NULL,NULL,'cli:root','2026-11-28 20:52:43.327','xiaolin_mc@example.org','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["我想和大家一起建一座中式园林，有小桥、流水和亭子。我很有耐心，也喜欢教新手。"],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":["B站视频"],"points":null,"max_points":0,"note":"","option_ids":[]}]');
INSERT INTO "regsvc_review" VALUES(10,7,'Blaze_is_back','blaze_is_back','ban','approved','banned','Griefing','2029-05-16 20:52:43.446','cli:root','2026-11-28 20:52:43.447','blaze_is_back@example.org',NULL);
INSERT INTO "regsvc_review" VALUES(11,10,'.BeaOnThePhone','.beaonthephone','reject','pending','rejected','Short answers',NULL,'cli:root','2026-11-28 20:52:43.720','pixel.papa+old@example.org','[{"question_id":1,"type":"single_choice","question":"Another player built a house where you wanted to build. What do you do?","answers":["I talk to the player, or look for another place."],"points":30,"max_points":30,"note":"","option_ids":[1]},{"question_id":2,"type":"multiple_choice","question":"Which of these are allowed here?","answers":["A texture pack that only changes how things look","Building together with friends"],"points":30,"max_points":30,"note":"","option_ids":[1,2]},{"question_id":3,"type":"text","question":"What would you like to do on this server?","answers":["I play on my phone and love decorating houses. I could furnish the inn!"],"points":null,"max_points":40,"note":"","option_ids":[]},{"question_id":4,"type":"text","question":"Who told you about us?","answers":["Discord"],"points":null,"max_points":0,"note":"","option_ids":[]}]');
INSERT INTO "regsvc_review" VALUES(12,9,'xiaolin_mc','xiaolin_mc','delete','approved',NULL,NULL,NULL,'cli:root','2026-11-28 20:52:43.868','xiaolin_mc@example.org',NULL);
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
INSERT INTO "regsvc_session" VALUES('jti-1',2,'user',0,'203.0.113.40','2026-11-01 10:00:00.000','2026-11-27 10:00:00.000','2031-01-01 00:00:00.000',0);
INSERT INTO "regsvc_session" VALUES('jti-2',1,'admin',0,'203.0.113.41','2026-11-27 10:00:00.000','2026-11-27 11:00:00.000','2031-01-01 00:00:00.000',1);
CREATE TABLE regsvc_setting (
  name       TEXT PRIMARY KEY, -- registration or announcement
  value      TEXT NOT NULL, -- JSON
  changed_by TEXT NOT NULL, -- who changed it
  changed_at TEXT NOT NULL -- when
);
INSERT INTO "regsvc_setting" VALUES('registration','{"open": false, "opensAt": 1798491164009}','cli:root','2026-11-28 20:52:44.009');
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
INSERT INTO "regsvc_sync_record" VALUES('sam_the_mason',1,'present','$SHA$73c8c37f99b5dd4b$5df29aa0d27dec42837a75abcc83111e5f587241957761682a79a3c10f6fd20b',NULL,'sam_the_mason@example.org','Sam_the_Mason',1794873159853,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'synced','2026-11-16 23:52:39.853',NULL,NULL);
INSERT INTO "regsvc_sync_record" VALUES('oda_1987',2,'present','$SHA$b7b6ec4e9e3e00a5$a40050703da5da91a4c2689daea8521baac8a47dccd34df88552813e7a7b1533',NULL,'oda_1987@example.org','Oda_1987',1795143159853,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'synced','2026-11-20 02:52:39.853',NULL,NULL);
INSERT INTO "regsvc_sync_record" VALUES('xx_blaze_xx',3,'present','$SHA$f2ac93f6590a5841$8b067361edbf356f1b7695f3785b239e4220de7d82c44996085f7c6b598b4ad9',NULL,'xx_blaze_xx@example.org','xX_Blaze_Xx',1795225959853,NULL,NULL,NULL,NULL,'banned','2026-11-25 20:52:39.853','$SHA$f2ac93f6590a5841$8b067361edbf356f1b7695f3785b239e4220de7d82c44996085f7c6b598b4ad9','verified',NULL,NULL,0,NULL,NULL,NULL,NULL,'locked','2026-11-25 20:52:39.853',NULL,NULL);
INSERT INTO "regsvc_sync_record" VALUES('lena_holz',4,'present','$SHA$97eeabacd2d30374$cfec9601d4d793fdef96d4f1578f08c41853e61573f473ee12b6fd4cc2af0ff5',NULL,'lena_holz@example.org','Lena_Holz',1795387959853,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'synced','2026-11-22 22:52:39.853',NULL,NULL);
INSERT INTO "regsvc_sync_record" VALUES('theo_short',6,'absent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent','2026-11-27 18:52:39.853',NULL,NULL);
INSERT INTO "regsvc_sync_record" VALUES('blaze_is_back',7,'present','$SHA$fee0a5b2fb13a8b1$cc7cc601cff4888332b2ed0b45a261bb34e9a52d91a49490462c1901c6847481',NULL,'blaze_is_back@example.org','Blaze_is_back',1795899163070,NULL,NULL,NULL,NULL,'banned','2026-11-28 20:52:43.593','$SHA$fee0a5b2fb13a8b1$cc7cc601cff4888332b2ed0b45a261bb34e9a52d91a49490462c1901c6847481','verified',NULL,NULL,0,NULL,NULL,NULL,NULL,'locked','2026-11-28 20:52:43.630',NULL,NULL);
INSERT INTO "regsvc_sync_record" VALUES('pixel_papa',8,'present','$SHA$f21efc6df42e111c$06a988dee9e2ff0a76a87872de656a7c59dd7be07859625780133f76db2cf727',NULL,'pixel_papa@example.org','Pixel_Papa',1795899163201,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'synced','2026-11-28 20:52:43.262',NULL,NULL);
INSERT INTO "regsvc_sync_record" VALUES('.beaonthephone',10,'absent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent','2026-11-28 13:52:39.853',NULL,NULL);
INSERT INTO "regsvc_sync_record" VALUES('noe_du_phare',11,'absent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent','2026-11-28 15:52:39.853',NULL,NULL);
INSERT INTO "regsvc_sync_record" VALUES('mia_builds',12,'absent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'absent','2026-11-28 18:52:39.853',NULL,NULL);
INSERT INTO "regsvc_sync_record" VALUES('xiaolin_mc',NULL,'absent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'$SHA$72549d2efc0e70a6$e43709620794450a0cf3ae0bf5c1bf58a602e0dce97eb83f27fc8ce835d2a15c',1795899163360,'2026-11-28 20:52:43.865',NULL,'absent','2026-11-28 20:52:43.865',NULL,NULL);
INSERT INTO "regsvc_sync_record" VALUES('olivia',13,'present','$SHA$c7f155b71fd406ea$50bf00e98933206d639f996ef43f53494c68d5eb30a194cda26981217fa217b9',NULL,NULL,'Olivia',1795899159812,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'synced','2026-11-28 20:52:44.196',NULL,NULL);
CREATE TABLE regsvc_sync_state (
  id          INTEGER PRIMARY KEY CHECK (id = 1), -- always 1
  policy      TEXT NOT NULL, -- fingerprint of config and version; if it changes, every row is compared again
  operators   TEXT NOT NULL, -- operators' names at that time, in lower case, one per line
  user_count  BIGINT NOT NULL, -- users at that time
  user_ids    BIGINT NOT NULL, -- the sum of their ids: changes if users were deleted with SQL
  newest_id   BIGINT NOT NULL, -- the newest user with a player: a newer one means that rows may have left as well
  compared_at TEXT NOT NULL -- when every row was last compared
);
INSERT INTO "regsvc_sync_state" VALUES(1,'93576f3d5c8a9aa6db1743a9bbde4553765a93eda03e22b0dec33dbbb517e849','olivia',0,0,0,'2026-11-28 20:52:44.168');
CREATE TABLE regsvc_team_chat_event (
  id          TEXT PRIMARY KEY, -- platform and id of what it sent us, so that it counts once
  received_at TEXT NOT NULL -- when
);
INSERT INTO "regsvc_team_chat_event" VALUES('discord:1','2026-11-27 10:00:00.000');
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
INSERT INTO "regsvc_team_chat_link" VALUES(1,1,'discord','80351110224678912','Sam',NULL,'2026-03-01 10:00:00.000','2026-03-01 10:01:00.000');
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
INSERT INTO "regsvc_team_chat_message" VALUES(1,'team',12,'mia_builds','4711','pending','1',1,'2026-11-27 10:00:00.000');
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
INSERT INTO "regsvc_token" VALUES(1,'dashboard','dashboard','Wb3JpD3cr7','d1847ea681a0281ba5453e0bd741d846d0d2b08d3fd24fa79ff5dc301854338c','users.read',NULL,'cli:root','2026-11-28 20:52:42.001',NULL,NULL,NULL);
INSERT INTO "regsvc_token" VALUES(2,'bot','bot','fn87g7nhw7','bfb3b9fa99f792c83e2dfa78769ef66abd0cc5df25bee7852224154e7d04b2a6','users.read users.review',NULL,'cli:root','2026-11-28 20:52:42.221','2026-12-28 20:52:42.221',NULL,NULL);
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
  last_login_at      TEXT NULL, -- last login on the web
  totp_step          BIGINT NULL, -- last TOTP time step that was used; each is accepted once
  changed_at         TEXT NULL, -- when the row last changed; empty once a sync run has processed it
  totp_nonce         TEXT NULL, -- from which the secret of the second factor is derived; the secret itself is not stored
  totp_enabled_at    TEXT NULL, -- when a code confirmed the second factor; empty: there is none, or it is not confirmed
  may_reapply        INTEGER NOT NULL DEFAULT 0 -- rejected, but may apply again at once, under the same name, too
, role TEXT NULL CHECK (role IN ('reviewer', 'moderator')), applied_role TEXT NULL, look_key TEXT GENERATED ALWAYS AS (REPLACE(REPLACE(REPLACE(username_key, 'i', 'l'), '1', 'l'), '0', 'o')) VIRTUAL, invited_by TEXT NULL, asked_at TEXT NULL, answered_at TEXT NULL, is_asked INTEGER GENERATED ALWAYS AS (asked_at IS NOT NULL) VIRTUAL);
INSERT INTO "regsvc_user" VALUES(1,'Sam_the_Mason','sam_the_mason','sam_the_mason@example.org','sam_the_mason@example.org',1,'approved','approved','en','java','$SHA$73c8c37f99b5dd4b$5df29aa0d27dec42837a75abcc83111e5f587241957761682a79a3c10f6fd20b',NULL,'SHA256','2026-11-16 20:52:39.853',0,'registered','198.18.20.20','2025-11-13 20:52:39.853','Welcome! The bridge is yours.','Olivia','2026-11-16 23:52:39.853',NULL,NULL,NULL,NULL,'2026-11-28 20:52:44.303',NULL,NULL,0,'moderator','moderator',NULL,NULL,NULL);
INSERT INTO "regsvc_user" VALUES(2,'Oda_1987','oda_1987','oda_1987@example.org','oda_1987@example.org',1,'approved','approved','en','java','$SHA$b7b6ec4e9e3e00a5$a40050703da5da91a4c2689daea8521baac8a47dccd34df88552813e7a7b1533',NULL,'SHA256','2026-11-19 20:52:39.853',0,'registered','198.18.21.21','2025-12-02 20:52:39.853',NULL,'Olivia','2026-11-20 02:52:39.853',NULL,NULL,'2026-10-01 10:00:00.000',NULL,'2026-11-28 20:52:44.303',NULL,NULL,0,'reviewer','reviewer',NULL,NULL,NULL);
INSERT INTO "regsvc_user" VALUES(3,'xX_Blaze_Xx','xx_blaze_xx','xx_blaze_xx@example.org','xx_blaze_xx@example.org',1,'banned','banned','en','java','$SHA$f2ac93f6590a5841$8b067361edbf356f1b7695f3785b239e4220de7d82c44996085f7c6b598b4ad9',NULL,'SHA256','2026-11-20 20:52:39.853',1,'registered','203.0.113.40','2025-12-19 20:52:39.853','ban.griefing','Olivia','2026-11-25 20:52:39.853','approved',NULL,NULL,NULL,'2026-11-28 20:52:44.303',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "regsvc_user" VALUES(4,'Lena_Holz','lena_holz','Lena.Holz+game@example.org','lena.holz+game@example.org',1,'approved','approved','de','java','$SHA$97eeabacd2d30374$cfec9601d4d793fdef96d4f1578f08c41853e61573f473ee12b6fd4cc2af0ff5',NULL,'SHA256','2026-11-22 20:52:39.853',0,'registered','198.18.23.23','2026-01-06 20:52:39.853',NULL,'Olivia','2026-11-22 22:52:39.853',NULL,NULL,NULL,NULL,'2026-11-28 20:52:44.303',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "regsvc_user" VALUES(6,'Theo_short','theo_short',NULL,NULL,0,'pending','pending','en','java','$SHA$85a3d1abe4cd5089$5e178878a7006ea0ba833d0e61ae5b32ddd3c4eb8cc30aac5d6128349f650a05',NULL,'SHA256','2026-11-27 18:52:39.853',0,'registered','198.18.25.25','2026-02-12 18:52:39.853',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-28 20:52:44.303',NULL,NULL,0,NULL,NULL,NULL,'2026-11-28 20:52:42.548',NULL);
INSERT INTO "regsvc_user" VALUES(7,'Blaze_is_back','blaze_is_back','blaze_is_back@example.org','blaze_is_back@example.org',1,'banned','banned','en','java','$SHA$fee0a5b2fb13a8b1$cc7cc601cff4888332b2ed0b45a261bb34e9a52d91a49490462c1901c6847481',NULL,'SHA256','2026-11-28 00:52:39.853',1,'registered','203.0.113.40','2026-03-01 00:52:39.853','Griefing','cli:root','2026-11-28 20:52:43.447','approved','2029-05-16 20:52:43.446',NULL,NULL,'2026-11-28 20:52:44.303',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "regsvc_user" VALUES(8,'Pixel_Papa','pixel_papa','pixel_papa@example.org','pixel_papa@example.org',1,'approved','approved','en','java','$SHA$f21efc6df42e111c$06a988dee9e2ff0a76a87872de656a7c59dd7be07859625780133f76db2cf727',NULL,'SHA256','2026-11-28 05:52:39.853',0,'registered','198.18.27.27','2026-03-17 05:52:39.853',NULL,'cli:root','2026-11-28 20:52:43.169',NULL,NULL,NULL,NULL,'2026-11-28 20:52:44.303',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "regsvc_user" VALUES(10,'.BeaOnThePhone','.beaonthephone','beaonthephone@example.org','beaonthephone@example.org',1,'rejected','rejected','en','bedrock','$SHA$607ae81678df50d0$d09121776556726b9553cc4ee933f5847c9431da5b4bd3c74ded12d42159d5c3',NULL,'SHA256','2026-11-28 13:52:39.853',0,'registered','198.18.29.29','2026-04-18 13:52:39.853','Short answers','cli:root','2026-11-28 20:52:43.720',NULL,NULL,NULL,NULL,'2026-11-28 20:52:44.303',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "regsvc_user" VALUES(11,'Noe_du_phare','noe_du_phare','noe_du_phare@example.org','noe_du_phare@example.org',1,'pending','pending','fr','java','$SHA$08ec8fc865d1b9c6$a2c3bebc3dcc1f9cf4b7ca00c4fc31e29fe352df2e9e3333b292d2ce0a9d03be',NULL,'SHA256','2026-11-28 15:52:39.853',0,'registered','198.18.30.30','2026-05-04 15:52:39.853',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-28 20:52:44.303',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "regsvc_user" VALUES(12,'Mia_builds','mia_builds','"lena..holz+x"@example.org','"lena..holz+x"@example.org',1,'pending','pending','en','java','$SHA$3098ffa4bffc818d$2591c9a752750580f1e37b764056d9fa509ff28c009f4aa23a76738230212c72',NULL,'SHA256','2026-11-28 18:52:39.853',0,'registered','198.18.31.31','2026-05-20 18:52:39.853',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-28 20:52:44.303',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "regsvc_user" VALUES(13,'Olivia','olivia',NULL,NULL,0,'approved','approved',NULL,'java',NULL,NULL,NULL,NULL,0,'adopted',NULL,'2026-06-05 20:52:39.812',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-28 20:52:44.303',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE regsvc_verification (
  id             INTEGER PRIMARY KEY AUTOINCREMENT, -- the code is derived from it
  email_key      TEXT NOT NULL, -- address it was mailed to
  purpose        TEXT NOT NULL, -- register, change_email, unlink
  nonce          TEXT NOT NULL, -- the code is derived from it too
  tries          INTEGER NOT NULL DEFAULT 0, -- wrong attempts
  created_at     TEXT NOT NULL, -- when it was requested
  handed_over_at TEXT NULL, -- when the mail server accepted it
  redeemed_at    TEXT NULL, -- when it was used
  client         TEXT NOT NULL DEFAULT '', -- client that asked last: IPv4 address, or /64 of an IPv6 address
  other_tries    INTEGER NOT NULL DEFAULT 0 -- wrong attempts of other clients
);
INSERT INTO "regsvc_verification" VALUES(1,'sam_the_mason@example.org','register','c20fe692a31869a1a24d7634efb4c697',0,'2026-11-16 20:52:39.853',NULL,'2026-11-16 20:52:39.853','198.18.20.20',0);
INSERT INTO "regsvc_verification" VALUES(2,'oda_1987@example.org','register','1f8c2fc02497f0e99e649445f53a140e',0,'2026-11-19 20:52:39.853',NULL,'2026-11-19 20:52:39.853','198.18.21.21',0);
CREATE INDEX regsvc_user_ban_expires ON regsvc_user (ban_expires_at);
CREATE INDEX regsvc_user_changed_at ON regsvc_user (changed_at) WHERE changed_at IS NOT NULL;
CREATE INDEX regsvc_review_username_key ON regsvc_review (username_key);
CREATE INDEX regsvc_review_email_key ON regsvc_review (email_key);
CREATE INDEX regsvc_sync_record_user_id ON regsvc_sync_record (user_id);
CREATE INDEX regsvc_sync_record_changed_at ON regsvc_sync_record (changed_at) WHERE changed_at IS NOT NULL;
CREATE INDEX regsvc_session_user_id ON regsvc_session (user_id);
CREATE INDEX regsvc_session_expires_at ON regsvc_session (expires_at);
CREATE INDEX regsvc_known_client_client ON regsvc_known_client (client, last_login_at);
CREATE INDEX regsvc_verification_email_key ON regsvc_verification (email_key, purpose);
CREATE INDEX regsvc_verification_created_at ON regsvc_verification (created_at);
CREATE INDEX regsvc_link_user_id ON regsvc_link (user_id);
CREATE INDEX regsvc_chat_request_session_jti ON regsvc_chat_request (session_jti);
CREATE INDEX regsvc_chat_request_created_at ON regsvc_chat_request (created_at);
CREATE INDEX regsvc_questionnaire_result_expires_at ON regsvc_questionnaire_result (expires_at);
CREATE INDEX regsvc_outbox_next_attempt_at ON regsvc_outbox (next_attempt_at);
CREATE INDEX regsvc_outbox_recipient_key ON regsvc_outbox (recipient_key);
CREATE INDEX regsvc_outbox_outcome ON regsvc_outbox (outcome, id);
CREATE INDEX regsvc_outbox_user_id ON regsvc_outbox (user_id, id);
CREATE INDEX regsvc_rate_limit_ends_at ON regsvc_rate_limit (ends_at);
CREATE INDEX regsvc_audit_target ON regsvc_audit (target, id);
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
CREATE TRIGGER regsvc_user_is_new AFTER INSERT ON regsvc_user
        WHEN NEW.changed_at IS NULL AND NOT (NEW.origin = 'adopted' AND NEW.status = 'approved')
        BEGIN UPDATE regsvc_user SET changed_at = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE id = NEW.id; END;
CREATE TRIGGER regsvc_user_is_changed AFTER UPDATE ON regsvc_user
        WHEN NEW.changed_at IS OLD.changed_at
        BEGIN UPDATE regsvc_user SET changed_at = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE id = NEW.id; END;
CREATE TRIGGER regsvc_user_is_gone AFTER DELETE ON regsvc_user
        BEGIN UPDATE regsvc_sync_record SET changed_at = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE user_id = OLD.id; END;
CREATE TRIGGER regsvc_sync_record_is_new AFTER INSERT ON regsvc_sync_record
        WHEN NEW.changed_at IS NULL AND NOT (NEW.presence = 'present' AND NEW.locked_at IS NULL)
        BEGIN UPDATE regsvc_sync_record SET changed_at = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE username_key = NEW.username_key; END;
CREATE TRIGGER regsvc_sync_record_is_changed AFTER UPDATE ON regsvc_sync_record
        WHEN NEW.changed_at IS OLD.changed_at
        BEGIN UPDATE regsvc_sync_record SET changed_at = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE username_key = NEW.username_key; END;
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
CREATE INDEX regsvc_user_status_name ON regsvc_user (status, username_key);
CREATE INDEX regsvc_audit_action_time ON regsvc_audit (action, created_at, id);
CREATE INDEX regsvc_audit_operator_time ON regsvc_audit (operator, created_at, id, action);
CREATE INDEX regsvc_allowlist_state ON regsvc_allowlist (state, reason);
CREATE INDEX regsvc_user_role ON regsvc_user (role, applied_role);
CREATE INDEX regsvc_user_registration_ip ON regsvc_user (registration_ip, status);
CREATE INDEX regsvc_note_username_key ON regsvc_note (username_key);
CREATE INDEX regsvc_note_email_key ON regsvc_note (email_key);
CREATE INDEX regsvc_user_look_key ON regsvc_user (look_key);
CREATE INDEX regsvc_player_address_address ON regsvc_player_address (address);
CREATE INDEX regsvc_player_address_seen_at ON regsvc_player_address (seen_at);
CREATE INDEX regsvc_user_waiting ON regsvc_user (status, is_asked, id, username_key);
CREATE INDEX regsvc_question_username_key ON regsvc_question (username_key);
CREATE INDEX regsvc_question_email_key ON regsvc_question (email_key);
CREATE INDEX regsvc_review_reviewed_at ON regsvc_review (reviewed_at, transition, operator);
CREATE INDEX regsvc_user_status_newest ON regsvc_user (status, id DESC);
CREATE INDEX regsvc_sync_record_newest ON regsvc_sync_record (plugin_state, user_id DESC, username_key);
CREATE INDEX regsvc_allowlist_newest ON regsvc_allowlist (shown_as, user_id DESC, username_key);
CREATE INDEX regsvc_audit_newest ON regsvc_audit (created_at DESC, id DESC);
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
INSERT INTO "sqlite_sequence" VALUES('regsvc_rate_limit',56);
INSERT INTO "sqlite_sequence" VALUES('regsvc_questionnaire_result',12);
INSERT INTO "sqlite_sequence" VALUES('regsvc_verification',12);
INSERT INTO "sqlite_sequence" VALUES('regsvc_user',13);
INSERT INTO "sqlite_sequence" VALUES('regsvc_audit',35);
INSERT INTO "sqlite_sequence" VALUES('regsvc_outbox',25);
INSERT INTO "sqlite_sequence" VALUES('regsvc_review',12);
INSERT INTO "sqlite_sequence" VALUES('regsvc_token',2);
INSERT INTO "sqlite_sequence" VALUES('regsvc_invitation',1);
INSERT INTO "sqlite_sequence" VALUES('regsvc_note',1);
INSERT INTO "sqlite_sequence" VALUES('regsvc_question',1);
INSERT INTO "sqlite_sequence" VALUES('regsvc_link',1);
INSERT INTO "sqlite_sequence" VALUES('regsvc_chat_link',1);
INSERT INTO "sqlite_sequence" VALUES('regsvc_chat_request',1);
INSERT INTO "sqlite_sequence" VALUES('regsvc_known_client',1);
INSERT INTO "sqlite_sequence" VALUES('regsvc_player_address',1);
INSERT INTO "sqlite_sequence" VALUES('regsvc_recovery_code',1);
INSERT INTO "sqlite_sequence" VALUES('regsvc_team_chat_link',1);
INSERT INTO "sqlite_sequence" VALUES('regsvc_team_chat_message',1);
COMMIT;
