"""Tables and columns for applications: signals, conversations, invitations.

Indexes of lists have the newest first: MariaDB reads one backwards in twice the time. None begins with a user's id: an
UPDATE of one user would use it instead of the primary key, and keep a row locked that does not match.
"""

from typing import Final

TABLES: Final = """
ALTER TABLE regsvc_user ADD COLUMN
  look_key {text:255} GENERATED ALWAYS AS (REPLACE(REPLACE(REPLACE(username_key, 'i', 'l'), '1', 'l'), '0', 'o')) {generated} -- the same for names that look alike: I, l and 1, 0 and O;

CREATE INDEX regsvc_user_look_key ON regsvc_user (look_key);

CREATE TABLE regsvc_player_address (
  id      {id}, -- in order
  user_id BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- the player's user
  source  {text:8} NOT NULL CHECK (source IN ('ip', 'regip')), -- column of AuthMe's table: of the last login, or of the registration in the game
  address {text:45} NOT NULL, -- the address there
  seen_at {moment} NOT NULL, -- when the player logged in, or registered
  UNIQUE (user_id, source)
);

CREATE INDEX regsvc_player_address_address ON regsvc_player_address (address);

CREATE INDEX regsvc_player_address_seen_at ON regsvc_player_address (seen_at);

ALTER TABLE regsvc_questionnaire_result ADD COLUMN
  answer_seconds INTEGER NULL -- from the proof of the address to the answers; empty: not known;

CREATE TABLE regsvc_reader (
  reader       {text:255} PRIMARY KEY, -- member of the team, in lower case
  name         {text:255} NOT NULL, -- as shown
  username_key {text:255} NOT NULL, -- the user who is open at theirs
  seen_at      {moment} NOT NULL -- when their page last said so
);

CREATE TABLE regsvc_invitation (
  id         {id}, -- never reused
  nonce      {text:32} NOT NULL, -- from which its token is derived, which is not stored
  grants     {text:64} NOT NULL, -- what the invited need not do, separated by spaces
  uses       INTEGER NOT NULL, -- for how many registrations it is
  used       INTEGER NOT NULL, -- how many it was used for
  made_by    {text:255} NULL, -- its maker in lower case, with whose right it ends; empty: the host, on the command line
  maker      {text:255} NOT NULL, -- its maker as the audit log shows them
  created_at {moment} NOT NULL, -- when it was made
  expires_at {moment} NOT NULL, -- when it ends
  revoked_at {moment} NULL -- when it was revoked, or its maker lost the right
);

ALTER TABLE regsvc_user ADD COLUMN
  invited_by {text:255} NULL -- who invited them, as the audit log shows that; empty: nobody;

ALTER TABLE regsvc_user ADD COLUMN
  asked_at {moment} NULL -- when the team asked the applicant, who has not answered yet; empty: nobody waits for an answer;

ALTER TABLE regsvc_user ADD COLUMN
  answered_at {moment} NULL -- when the applicant answered the last question; empty once it is decided;

ALTER TABLE regsvc_user ADD COLUMN
  is_asked {bool} GENERATED ALWAYS AS (asked_at IS NOT NULL) {generated} -- whether a pending user has to answer first;

CREATE INDEX regsvc_user_waiting ON regsvc_user (status, is_asked, id, username_key);

CREATE TABLE regsvc_question (
  id           {id}, -- in order
  user_id      BIGINT NOT NULL, -- id of the user at that time
  username_key {text:255} NOT NULL, -- in lower case
  email_key    {text:320} NULL, -- the user's proven address at that time, normalized
  author       {text:255} NOT NULL, -- who asked
  question     {long_text} NOT NULL, -- what the team asked
  answers      {long_text} NULL, -- JSON of the questionnaire's answers that the question is about
  asked_at     {moment} NOT NULL, -- when
  answer       {long_text} NULL, -- what the applicant answered
  answered_at  {moment} NULL -- when; empty: not answered
);

CREATE INDEX regsvc_question_username_key ON regsvc_question (username_key);

CREATE INDEX regsvc_question_email_key ON regsvc_question (email_key);

CREATE INDEX regsvc_review_reviewed_at ON regsvc_review (reviewed_at, transition, operator);

ALTER TABLE regsvc_link ADD COLUMN
  maker {text:255} NULL -- who handed it over, as the audit log shows them; empty: nobody;

CREATE INDEX regsvc_user_status_newest ON regsvc_user (status, id DESC);

DROP INDEX regsvc_user_status ON regsvc_user;

CREATE INDEX regsvc_sync_record_newest ON regsvc_sync_record (plugin_state, user_id DESC, username_key);

DROP INDEX regsvc_sync_record_plugin_state ON regsvc_sync_record;

CREATE INDEX regsvc_allowlist_newest ON regsvc_allowlist (shown_as, user_id DESC, username_key);

DROP INDEX regsvc_allowlist_shown_as ON regsvc_allowlist;

CREATE INDEX regsvc_audit_newest ON regsvc_audit (created_at DESC, id DESC);

DROP INDEX regsvc_audit_created_at ON regsvc_audit;
"""

VIEWS: Final = """
CREATE {view} regsvc_v_questions AS -- what the team asked applicants, and what they answered
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

DROP VIEW IF EXISTS regsvc_v_review_queue;

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
"""
