"""The first tables.

Words in braces are the dialect's types (`regsvc/database/migrator.py`); `--` notes become column comments.
"""

TABLES = """
CREATE TABLE regsvc_installation (
  id                   INTEGER PRIMARY KEY CHECK (id = 1), -- always 1
  installation_id      {text:36} NOT NULL, -- id of this installation; also in the state directory
  home                 {text:255} NOT NULL, -- name of this database, as the daemon resolved it
  key_fingerprint      {text:64} NOT NULL, -- fingerprint of the installation key, to detect another one
  first_started_at     {moment} NOT NULL, -- players registered before then existed before the companion
  purging_audit_before {moment} NULL -- set while `companion purge` removes old audit entries
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
  last_login_at      {moment} NULL -- last login on the web
);
CREATE INDEX regsvc_user_status ON regsvc_user (status, id);
CREATE INDEX regsvc_user_edited ON regsvc_user (is_edited, id);
CREATE INDEX regsvc_user_ban_expires ON regsvc_user (ban_expires_at);

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
  reviewed_at    {moment} NOT NULL -- when it was decided
);
CREATE INDEX regsvc_review_username_key ON regsvc_review (username_key);

CREATE TABLE regsvc_player (
  username_key      {text:255} PRIMARY KEY, -- the name in lower case, as the plugin's table keeps it
  user_id           BIGINT NULL, -- user whose player this is
  presence          {text:8} NOT NULL CHECK (presence IN ('unasked', 'absent', 'present', 'gone')), -- state of the row when last in sync
  base_hash         {text:255} NULL, -- last synced: password hash
  base_salt         {text:255} NULL, -- last synced: salt
  base_email        {text:255} NULL, -- last synced: e-mail
  base_realname     {text:255} NULL, -- last synced: name as written
  base_regdate      BIGINT NULL, -- last synced: registration in the game, ms since 1970; identifies the row
  wish              {text:16} NULL CHECK (wish IN ('provision', 'password', 'open')), -- intent: the pending write to AuthMe's row
  wish_hash         {text:255} NULL, -- of the row being created, or of the one taken over with open
  wish_salt         {text:255} NULL, -- of the row being created
  wish_regdate      BIGINT NULL, -- of the row being created
  lock_reason       {text:16} NULL, -- why the row is locked
  locked_at         {moment} NULL, -- when it was locked
  kept_hash         {text:255} NULL, -- hash that the lock replaced
  kept_origin       {text:8} NULL CHECK (kept_origin IN ('agreed', 'stranger')), -- whose hash it is
  kept_premium_uuid {text:36} NULL, -- premium UUID that the lock removed
  tombstone_hash    {text:255} NULL, -- hash of the row of a deleted user
  tombstone_regdate BIGINT NULL, -- registration of that row
  tombstone_at      {moment} NULL, -- when the user was deleted
  conflict          {text:255} NULL, -- fields in conflict, reported once
  plugin_state      {text:16} NOT NULL, -- state shown in the user list as `plugin`
  plugin_since      {moment} NOT NULL -- since when it is in this state
);
CREATE INDEX regsvc_player_user_id ON regsvc_player (user_id);
CREATE INDEX regsvc_player_wish ON regsvc_player (wish);

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

CREATE TABLE regsvc_verification (
  id             {id}, -- the code is derived from it
  email_key      {text:320} NOT NULL, -- address it was mailed to
  purpose        {text:16} NOT NULL, -- register, change_email, unlink
  nonce          {text:32} NOT NULL, -- the code is derived from it too
  tries          INTEGER NOT NULL DEFAULT 0, -- wrong attempts
  created_at     {moment} NOT NULL, -- when it was requested
  handed_over_at {moment} NULL, -- when the mail server accepted it
  redeemed_at    {moment} NULL -- when it was used
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
  last_error      {text:500} NULL -- error of the last failed attempt
);
CREATE INDEX regsvc_outbox_next_attempt_at ON regsvc_outbox (next_attempt_at);
CREATE INDEX regsvc_outbox_recipient_key ON regsvc_outbox (recipient_key);

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

# `companion purge` is the one that may delete, and says so in regsvc_installation first.
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
