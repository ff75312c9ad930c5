"""The tables, triggers and views of version 1.0. Those of a preview version are brought to them, with all their rows.

Words in braces are the dialect's types (`regsvc/database/migrator.py`); `--` notes become column comments.
They stay as previews wrote them: `regsvc_review.email_key` is of a proven address only by now.
"""

from collections.abc import Sequence

# ruff: noqa: S608 - names of our own tables alone

TABLES = """
CREATE TABLE regsvc_installation (
  id                      INTEGER PRIMARY KEY CHECK (id = 1), -- always 1
  installation_id         {text:36} NOT NULL, -- id of this installation; also in the state directory
  home                    {text:255} NOT NULL, -- name of this database, as the daemon resolved it
  key_fingerprint         {text:64} NOT NULL, -- fingerprint of the installation key, to detect another one
  first_started_at        {moment} NOT NULL, -- players registered before then existed before the companion
  purging_audit_before    {moment} NULL, -- set while `companion purge` removes old audit entries
  digested_at             {moment} NULL, -- when the last digest was mailed to admins
  digested_user_id        BIGINT NULL, -- newest user in the last digest
  signing_key_fingerprint {text:64} NULL -- of the key that signs access tokens, of the last daemon started
);

CREATE TABLE regsvc_lease (
  name       {text:40} PRIMARY KEY, -- task that only one process may do
  holder     {text:80} NOT NULL, -- installation and process
  expires_at {moment} NOT NULL -- by the database's clock
);

CREATE TABLE regsvc_user (
  id                 {id}, -- never reused
  username           {text:255} NOT NULL, -- as the player writes it
  username_key       {text:255} NOT NULL UNIQUE, -- in lower case
  email              {text:320} NULL, -- as given
  email_key          {text:320} NULL UNIQUE, -- as compared: lower case, NFC, domain as A-label
  is_email_verified  {bool} NOT NULL DEFAULT 0, -- proven by a code or a mailed link
  status             {text:16} NOT NULL CHECK (status IN ('pending', 'approved', 'rejected', 'banned')), -- desired status; operators may edit it
  applied_status     {text:16} NOT NULL CHECK (applied_status IN ('pending', 'approved', 'rejected', 'banned')), -- status applied so far; written by the daemon only
  is_edited          {bool} GENERATED ALWAYS AS (status <> applied_status) VIRTUAL, -- edited with SQL and not applied yet
  language           {text:16} NULL, -- language of mails and messages
  platform           {text:16} NOT NULL DEFAULT 'java' CHECK (platform IN ('java', 'bedrock')), -- edition of the game
  password_hash      {text:255} NULL, -- the password set through us, until the game changes it
  password_salt      {text:255} NULL, -- salt, if the algorithm stores it separately
  password_algorithm {text:32} NULL, -- AuthMe's name for the algorithm, or PASSLIB
  password_set_at    {moment} NULL, -- when the password was set
  token_generation   INTEGER NOT NULL DEFAULT 0, -- incremented to end every session
  origin             {text:16} NOT NULL CHECK (origin IN ('registered', 'adopted', 'created')), -- how the user was created
  registration_ip    {text:45} NULL, -- the client's address
  created_at         {moment} NOT NULL, -- when the user registered, here or in the game
  reason             {text} NULL, -- reason of the last review; the user sees it
  reviewed_by        {text:255} NULL, -- operator who decided
  reviewed_at        {moment} NULL, -- when it was decided
  banned_from        {text:16} NULL CHECK (banned_from IN ('pending', 'approved', 'rejected')), -- status to return to when the ban ends
  ban_expires_at     {moment} NULL, -- end of the ban; empty: permanent
  last_login_at      {moment} NULL, -- last login on the web
  totp_step          BIGINT NULL, -- last TOTP time step that was used; each is accepted once
  changed_at         {touched} NULL, -- when the row last changed; empty once a sync run has processed it
  totp_nonce         {text:32} NULL, -- from which the secret of the second factor is derived; the secret itself is not stored
  totp_enabled_at    {moment} NULL, -- when a code confirmed the second factor; empty: there is none, or it is not confirmed
  may_reapply        {bool} NOT NULL DEFAULT 0 -- rejected, but may apply again at once, under the same name, too
);
CREATE INDEX regsvc_user_status ON regsvc_user (status, id);
CREATE INDEX regsvc_user_ban_expires ON regsvc_user (ban_expires_at);
CREATE INDEX regsvc_user_changed_at ON regsvc_user (changed_at){where_marked};

CREATE TABLE regsvc_review (
  id             {id}, -- in order
  user_id        BIGINT NOT NULL, -- id of the user at that time
  username       {text:255} NOT NULL, -- as the player writes it
  username_key   {text:255} NOT NULL, -- in lower case
  transition     {text:16} NOT NULL, -- approve, reject, ban, unban, delete
  status_before  {text:16} NOT NULL, -- status before
  status_after   {text:16} NULL, -- status after; empty after a deletion
  reason         {text} NULL, -- shown to the user
  ban_expires_at {moment} NULL, -- end of a ban
  operator       {text:255} NOT NULL, -- who decided
  reviewed_at    {moment} NOT NULL, -- when it was decided
  email_key      {text:320} NULL -- the user's address at that time, normalized for comparison
);
CREATE INDEX regsvc_review_username_key ON regsvc_review (username_key);
CREATE INDEX regsvc_review_email_key ON regsvc_review (email_key);

CREATE TABLE regsvc_sync_record (
  username_key      {text:255} PRIMARY KEY, -- the name in lower case, as the plugin's table keeps it
  user_id           BIGINT NULL, -- user whose player this is
  presence          {text:8} NOT NULL CHECK (presence IN ('unasked', 'absent', 'present', 'gone')), -- state of the row when last in sync
  base_hash         {text:255} NULL, -- last synced: password hash
  base_salt         {text:255} NULL, -- last synced: salt
  base_email        {text:255} NULL, -- last synced: e-mail
  base_realname     {text:255} NULL, -- last synced: name as written
  base_regdate      BIGINT NULL, -- last synced: registration in the game, ms since 1970; identifies the row
  intent            {text:16} NULL CHECK (intent IN ('provision', 'password', 'open')), -- the pending write to AuthMe's row
  intent_hash       {text:255} NULL, -- of the row being created, or of the one taken over with open
  intent_salt       {text:255} NULL, -- of the row being created
  intent_regdate    BIGINT NULL, -- of the row being created
  lock_reason       {text:16} NULL, -- why the row is locked
  locked_at         {moment} NULL, -- when it was locked
  kept_hash         {text:255} NULL, -- hash that the lock replaced
  kept_origin       {text:16} NULL CHECK (kept_origin IN ('verified', 'unverified')), -- whether it is known to be the user's own
  kept_premium_uuid {text:36} NULL, -- premium UUID that the lock removed
  kept_group        INT NULL, -- group that the lock replaced, where AuthMe has a column of groups
  kicked_login      BIGINT NULL, -- last login of the locked row for which its player was kicked, as AuthMe writes it; 0: unknown
  tombstone_hash    {text:255} NULL, -- hash of the row of a deleted user
  tombstone_regdate BIGINT NULL, -- registration of that row
  tombstone_at      {moment} NULL, -- when the user was deleted
  conflict          {text:255} NULL, -- fields in conflict, reported once
  plugin_state      {text:16} NOT NULL, -- state shown in the user list as `plugin`
  plugin_since      {moment} NOT NULL, -- since when it is in this state
  earlier_hashes    {text:64} NULL, -- short checksums of the last synced hashes before this one, newest last
  changed_at        {touched} NULL -- when the row last changed; empty once a sync run has processed it
);
CREATE INDEX regsvc_sync_record_user_id ON regsvc_sync_record (user_id);
CREATE INDEX regsvc_sync_record_changed_at ON regsvc_sync_record (changed_at){where_marked};

CREATE TABLE regsvc_bucket (
  bucket    INTEGER PRIMARY KEY, -- neighbouring ids of the plugin's table, or names with the same CRC32 modulo 65536
  row_count INTEGER NOT NULL, -- rows of the plugin's table in it
  checksum  BIGINT NOT NULL -- checksum of the columns that the sync compares
);

CREATE TABLE regsvc_sync_state (
  id          INTEGER PRIMARY KEY CHECK (id = 1), -- always 1
  policy      {text:64} NOT NULL, -- fingerprint of config and version; if it changes, every row is compared again
  operators   {long_text} NOT NULL, -- operators' names at that time, in lower case, one per line
  user_count  BIGINT NOT NULL, -- users at that time
  user_ids    BIGINT NOT NULL, -- the sum of their ids: changes if users were deleted with SQL
  newest_id   BIGINT NOT NULL, -- the newest user with a player: a newer one means that rows may have left as well
  compared_at {moment} NOT NULL -- when every row was last compared
);

CREATE TABLE regsvc_session (
  jti              {text:32} PRIMARY KEY, -- id of the access token; the token itself is not stored
  user_id          BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- owner
  audience         {text:8} NOT NULL CHECK (audience IN ('user', 'admin')), -- login that issued it
  token_generation INTEGER NOT NULL, -- the user's token_generation when it was issued
  ip               {text:45} NULL, -- the client's address at login
  created_at       {moment} NOT NULL, -- when it was issued
  last_seen_at     {moment} NOT NULL, -- rounded to a minute
  expires_at       {moment} NOT NULL -- when it expires at the latest
);
CREATE INDEX regsvc_session_user_id ON regsvc_session (user_id);
CREATE INDEX regsvc_session_expires_at ON regsvc_session (expires_at);

CREATE TABLE regsvc_known_client (
  id            {id}, -- in order
  user_id       BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- user who logged in
  client        {text:45} NOT NULL, -- IPv4 address, or /64 of an IPv6 address
  last_login_at {moment} NOT NULL, -- last successful login
  UNIQUE (user_id, client)
);
CREATE INDEX regsvc_known_client_client ON regsvc_known_client (client, last_login_at);

CREATE TABLE regsvc_recovery_code (
  id         {id}, -- in order
  user_id    BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- user
  code_hash  {text:64} NOT NULL, -- keyed hash of a code that was not used yet; the code itself is not stored
  created_at {moment} NOT NULL, -- when it was shown
  UNIQUE (user_id, code_hash)
);

CREATE TABLE regsvc_verification (
  id             {id}, -- the code is derived from it
  email_key      {text:320} NOT NULL, -- address it was mailed to
  purpose        {text:16} NOT NULL, -- register, change_email, unlink
  nonce          {text:32} NOT NULL, -- the code is derived from it too
  tries          INTEGER NOT NULL DEFAULT 0, -- wrong attempts
  created_at     {moment} NOT NULL, -- when it was requested
  handed_over_at {moment} NULL, -- when the mail server accepted it
  redeemed_at    {moment} NULL, -- when it was used
  client         {text:45} NOT NULL DEFAULT '', -- client that asked last: IPv4 address, or /64 of an IPv6 address
  other_tries    INTEGER NOT NULL DEFAULT 0 -- wrong attempts of other clients
);
CREATE INDEX regsvc_verification_email_key ON regsvc_verification (email_key, purpose);
CREATE INDEX regsvc_verification_created_at ON regsvc_verification (created_at);

CREATE TABLE regsvc_link (
  id          {id}, -- its token is derived from it
  user_id     BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- user whose password it sets
  purpose     {text:16} NOT NULL CHECK (purpose IN ('reset', 'first_password')), -- why it was mailed
  email_key   {text:320} NOT NULL, -- address it was mailed to, and the only one it proves
  nonce       {text:32} NOT NULL, -- its token is derived from it too
  created_at  {moment} NOT NULL, -- when it was requested
  expires_at  {moment} NOT NULL, -- when it expires
  redeemed_at {moment} NULL -- when it was used or invalidated
);
CREATE INDEX regsvc_link_user_id ON regsvc_link (user_id);

CREATE TABLE regsvc_chat_request (
  id          {id}, -- in order
  state_hash  {text:64} NOT NULL UNIQUE, -- hash of the state, which itself is not stored
  token_hash  {text:64} NOT NULL, -- hash of the link token of the browser that started it
  session_jti {text:32} NULL REFERENCES regsvc_session (jti) ON DELETE CASCADE, -- session that started it; empty without a login
  created_at  {moment} NOT NULL -- when it was started
);
CREATE INDEX regsvc_chat_request_session_jti ON regsvc_chat_request (session_jti);
CREATE INDEX regsvc_chat_request_created_at ON regsvc_chat_request (created_at);

CREATE TABLE regsvc_chat_link (
  id              {id}, -- in order
  user_id         BIGINT NULL UNIQUE REFERENCES regsvc_user (id) ON DELETE CASCADE, -- user; empty while unclaimed
  claimed_account {text:300} NULL UNIQUE, -- platform and account, unique among users; empty while unclaimed
  platform        {text:16} NOT NULL, -- chat platform
  account_id      {text:255} NOT NULL, -- its id there, which never changes
  username        {text:255} NOT NULL, -- its name there, when it was linked
  discriminator   {text:16} NOT NULL, -- the digits behind that name; 0 where there are none
  avatar          {text:255} NULL, -- the platform's id of its picture
  global_name     {text:255} NULL, -- its display name
  token_hash      {text:64} NOT NULL UNIQUE, -- hash of the link token that claims it
  linked_at       {moment} NOT NULL -- when the platform confirmed it; unclaimed, it expires an hour later
);

CREATE TABLE regsvc_questionnaire_result (
  id              {id}, -- its token is derived from it
  nonce           {text:32} NOT NULL, -- its token is derived from it too
  user_id         BIGINT NULL UNIQUE REFERENCES regsvc_user (id) ON DELETE CASCADE, -- user who registered with it; empty until then
  score           INTEGER NOT NULL, -- points so far; never below 0
  max_score       INTEGER NOT NULL, -- points that were possible
  pass_score      INTEGER NOT NULL, -- points that were needed
  is_passed       {bool} NOT NULL, -- passed, or may still pass after a review
  requires_review {bool} NOT NULL, -- an admin has to read it before the applicant may play
  summary         {text:1000} NOT NULL, -- summary for the review queue
  answers         {long_text} NOT NULL, -- JSON: each question as it was asked, with its answer and points
  submitted_at    {moment} NOT NULL, -- when it was answered
  expires_at      {moment} NULL -- end of its validity; empty once it was used
);
CREATE INDEX regsvc_questionnaire_result_expires_at ON regsvc_questionnaire_result (expires_at);

CREATE TABLE regsvc_outbox (
  id              {id}, -- a recipient gets mails in this order
  kind            {text:16} NOT NULL DEFAULT 'mail', -- mail, webhook or rcon
  template        {text:40} NOT NULL, -- name of the mail or of the webhook event
  recipient       {text:320} NOT NULL, -- recipient; for a webhook its name, never its URL
  recipient_key   {text:320} NOT NULL, -- normalized for comparison
  language        {text:16} NOT NULL, -- language of the text
  user_id         BIGINT NULL, -- user it is about
  row_id          BIGINT NULL, -- verification or review it is about; read when it is sent
  link_id         BIGINT NULL, -- password link in it
  attempts        INTEGER NOT NULL DEFAULT 0, -- attempts so far
  created_at      {moment} NOT NULL, -- when it was enqueued
  next_attempt_at {moment} NULL, -- next attempt; empty when done
  done_at         {moment} NULL, -- when it was sent, failed or dropped
  outcome         {text:16} NULL CHECK (outcome IN ('sent', 'failed', 'dropped')), -- result
  last_error      {text:500} NULL, -- error of the last failed attempt
  payload         {text} NULL -- JSON body of a webhook call; contains no secrets
);
CREATE INDEX regsvc_outbox_next_attempt_at ON regsvc_outbox (next_attempt_at);
CREATE INDEX regsvc_outbox_recipient_key ON regsvc_outbox (recipient_key);
CREATE INDEX regsvc_outbox_outcome ON regsvc_outbox (outcome, id);
CREATE INDEX regsvc_outbox_user_id ON regsvc_outbox (user_id, id);

CREATE TABLE regsvc_rate_limit (
  id             {id}, -- in order
  scope          {text:40} NOT NULL, -- what is limited
  subject        {text:320} NOT NULL, -- who is limited
  period_seconds INTEGER NOT NULL, -- length of the window
  started_at     {moment} NOT NULL, -- start of the current window
  ends_at        {moment} NOT NULL, -- end of the current window
  hits           INTEGER NOT NULL, -- hits in the window
  UNIQUE (scope, subject, period_seconds)
);
CREATE INDEX regsvc_rate_limit_ends_at ON regsvc_rate_limit (ends_at);

CREATE TABLE regsvc_audit (
  id          {id}, -- in order
  action      {text:40} NOT NULL, -- for example user.approved
  operator    {text:255} NOT NULL, -- actor: a name, cli:<unix user>, sql, sync; empty if unknown
  target      {text:255} NULL, -- name of the target
  detail      {text} NULL, -- JSON
  ip          {text:45} NULL, -- the client's address
  tally       {text:64} NULL UNIQUE, -- key of an entry that is counted instead of repeated
  occurrences INTEGER NOT NULL DEFAULT 1, -- number of times, for a counted entry
  created_at  {moment} NOT NULL -- when it happened
);
CREATE INDEX regsvc_audit_target ON regsvc_audit (target, id);
CREATE INDEX regsvc_audit_action ON regsvc_audit (action, id);
CREATE INDEX regsvc_audit_operator ON regsvc_audit (operator, id);
CREATE INDEX regsvc_audit_created_at ON regsvc_audit (created_at);
"""

_DATES = ("created_at", "password_set_at", "reviewed_at", "ban_expires_at", "last_login_at", "changed_at")
_NOW = "strftime('%Y-%m-%d %H:%M:%f', 'now')"


def _is_no_date(column: str) -> str:
    """Return SQLite's condition: not `2031-06-01 12:00:00.000`, with or without fractions, seconds and time.

    The modifier makes 30 February another day.
    """
    return (
        f"({column} IS NOT NULL AND ({column} < '0001' OR length({column}) NOT IN (10, 16, 19, 23) "
        f"OR substr(strftime('%Y-%m-%d %H:%M:%f', {column}, '+0 days'), 1, length({column})) IS NOT {column}))"
    )


def _refuse(column: str, condition: str) -> str:
    return (
        f"WHEN {condition} AND {_is_no_date(f'NEW.{column}')} THEN RAISE(ABORT, "
        f"'{column} takes a date such as 2031-06-01 or 2031-06-01 18:30:00, in UTC')"
    )


def refusals_of_dates(columns: Sequence[str]) -> tuple[str, str]:
    """Return SQLite's conditions that refuse what is no date in these columns, in a new row and in a changed one."""
    new = "\n".join(_refuse(column, "TRUE") for column in columns)
    return new, "\n".join(_refuse(column, f"NEW.{column} IS NOT OLD.{column}") for column in columns)


_REFUSE_NEW, _REFUSE_CHANGED = refusals_of_dates(_DATES)

# The audit log is append-only: `companion purge` is the one that may delete, and says so in regsvc_installation first.
# On SQLite triggers also write `changed_at`, which MySQL does by itself; an update that sets it is the sync's own. An
# adoption as approved is not marked: it leaves nothing to do, and thousands of rows would be written twice.
TRIGGERS = {
    "sqlite": [
        """
        CREATE TRIGGER IF NOT EXISTS regsvc_audit_is_not_deleted BEFORE DELETE ON regsvc_audit
        WHEN NOT EXISTS (SELECT 1 FROM regsvc_installation WHERE purging_audit_before > OLD.created_at)
        BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END
        """,
        """
        CREATE TRIGGER IF NOT EXISTS regsvc_audit_is_not_changed BEFORE UPDATE ON regsvc_audit
        WHEN NEW.id IS NOT OLD.id OR NEW.action IS NOT OLD.action OR NEW.operator IS NOT OLD.operator
          OR NEW.target IS NOT OLD.target OR NEW.detail IS NOT OLD.detail OR NEW.tally IS NOT OLD.tally
          OR NEW.created_at IS NOT OLD.created_at OR NEW.occurrences < OLD.occurrences
          OR (NEW.occurrences > OLD.occurrences AND OLD.tally IS NULL)
          OR (NEW.ip IS NOT OLD.ip AND (NEW.ip IS NOT NULL OR NOT EXISTS
               (SELECT 1 FROM regsvc_installation WHERE purging_audit_before > OLD.created_at)))
        BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END
        """,
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_user_is_new AFTER INSERT ON regsvc_user
        WHEN NEW.changed_at IS NULL AND NOT (NEW.origin = 'adopted' AND NEW.status = 'approved')
        BEGIN UPDATE regsvc_user SET changed_at = {_NOW} WHERE id = NEW.id; END
        """,
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_user_is_changed AFTER UPDATE ON regsvc_user
        WHEN NEW.changed_at IS OLD.changed_at
        BEGIN UPDATE regsvc_user SET changed_at = {_NOW} WHERE id = NEW.id; END
        """,
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_user_is_gone AFTER DELETE ON regsvc_user
        BEGIN UPDATE regsvc_sync_record SET changed_at = {_NOW} WHERE user_id = OLD.id; END
        """,
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_sync_record_is_new AFTER INSERT ON regsvc_sync_record
        WHEN NEW.changed_at IS NULL AND NOT (NEW.presence = 'present' AND NEW.locked_at IS NULL)
        BEGIN UPDATE regsvc_sync_record SET changed_at = {_NOW} WHERE username_key = NEW.username_key; END
        """,
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_sync_record_is_changed AFTER UPDATE ON regsvc_sync_record
        WHEN NEW.changed_at IS OLD.changed_at
        BEGIN UPDATE regsvc_sync_record SET changed_at = {_NOW} WHERE username_key = NEW.username_key; END
        """,
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_user_has_dates BEFORE INSERT ON regsvc_user
        BEGIN SELECT CASE {_REFUSE_NEW} END; END
        """,
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_user_gets_dates BEFORE UPDATE OF {", ".join(_DATES)} ON regsvc_user
        BEGIN SELECT CASE {_REFUSE_CHANGED} END; END
        """,
    ],
    "mysql": [
        """
        CREATE TRIGGER regsvc_audit_is_not_deleted BEFORE DELETE ON regsvc_audit FOR EACH ROW
        IF NOT EXISTS (SELECT 1 FROM regsvc_installation WHERE purging_audit_before > OLD.created_at) THEN
          SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the audit log is append-only';
        END IF
        """,
        """
        CREATE TRIGGER regsvc_audit_is_not_changed BEFORE UPDATE ON regsvc_audit FOR EACH ROW
        IF NEW.id <> OLD.id OR NEW.action <> OLD.action OR NEW.operator <> OLD.operator
          OR NOT (NEW.target <=> OLD.target) OR NOT (NEW.detail <=> OLD.detail) OR NOT (NEW.tally <=> OLD.tally)
          OR NEW.created_at <> OLD.created_at OR NEW.occurrences < OLD.occurrences
          OR (NEW.occurrences > OLD.occurrences AND OLD.tally IS NULL)
          OR (NOT (NEW.ip <=> OLD.ip) AND (NEW.ip IS NOT NULL OR NOT EXISTS
               (SELECT 1 FROM regsvc_installation WHERE purging_audit_before > OLD.created_at))) THEN
          SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the audit log is append-only';
        END IF
        """,
    ],
}

# For people who type SQL: each answers an operator's question, from our tables alone. They contain no secrets and no
# ORDER BY. A `--` note after a name goes into docs/schema.md.
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
LEFT JOIN regsvc_sync_record p ON p.username_key = u.username_key
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
LEFT JOIN regsvc_sync_record p ON p.username_key = u.username_key;

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
