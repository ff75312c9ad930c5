"""The first tables.

Words in braces are the dialect's types (`regsvc/database/migrator.py`); `--` notes become column comments.
"""

TABLES = """
CREATE TABLE regsvc_installation (
  id                   INTEGER PRIMARY KEY CHECK (id = 1), -- always 1
  installation_id      {text:36} NOT NULL, -- who we are; stands in the state directory too
  home                 {text:255} NOT NULL, -- which database this is, as the daemon resolved it
  key_fingerprint      {text:64} NOT NULL, -- tells another installation key without holding this one
  first_started_at     {moment} NOT NULL, -- players registered before it existed before us
  purging_audit_before {moment} NULL -- set while `companion purge` removes old audit entries
);

CREATE TABLE regsvc_lease (
  name       {text:40} PRIMARY KEY, -- what only one process may do
  holder     {text:80} NOT NULL, -- installation and process
  expires_at {moment} NOT NULL -- by the database's clock
);

CREATE TABLE regsvc_user (
  id                 {id}, -- never used twice
  username           {text:255} NOT NULL, -- as the player writes it
  username_key       {text:255} NOT NULL UNIQUE, -- in lower case
  email              {text:320} NULL, -- as given
  email_key          {text:320} NULL UNIQUE, -- as compared: lower case, NFC, domain as A-label
  is_email_verified  {bool} NOT NULL DEFAULT 0, -- proven by a code or a mailed link
  status             {text:16} NOT NULL CHECK (status IN ('pending', 'approved', 'rejected', 'banned')), -- what should be; operators may edit it
  applied_status     {text:16} NOT NULL CHECK (applied_status IN ('pending', 'approved', 'rejected', 'banned')), -- what has been carried out; only the daemon writes it
  is_edited          {bool} GENERATED ALWAYS AS (status <> applied_status) VIRTUAL, -- somebody typed SQL
  language           {text:16} NULL, -- of mails and messages
  platform           {text:16} NOT NULL DEFAULT 'java' CHECK (platform IN ('java', 'bedrock')), -- edition of the game
  password_hash      {text:255} NULL, -- the password set through us, until the game changes it
  password_salt      {text:255} NULL, -- where the algorithm keeps its salt apart
  password_algorithm {text:32} NULL, -- AuthMe's name of it, or PASSLIB
  password_set_at    {moment} NULL, -- when
  token_generation   INTEGER NOT NULL DEFAULT 0, -- counted up, it ends every session
  origin             {text:16} NOT NULL CHECK (origin IN ('registered', 'adopted', 'created')), -- how the user came to be
  registration_ip    {text:45} NULL, -- the client's address
  created_at         {moment} NOT NULL, -- when the user registered, here or in the game
  reason             {text} NULL, -- of the last review; its owner sees it
  reviewed_by        {text:255} NULL, -- operator
  reviewed_at        {moment} NULL, -- when
  banned_from        {text:16} NULL CHECK (banned_from IN ('pending', 'approved', 'rejected')), -- the status a ban that ends goes back to
  ban_expires_at     {moment} NULL, -- empty: for good
  last_login_at      {moment} NULL -- on the web
);
CREATE INDEX regsvc_user_status ON regsvc_user (status, id);
CREATE INDEX regsvc_user_edited ON regsvc_user (is_edited, id);
CREATE INDEX regsvc_user_ban_expires ON regsvc_user (ban_expires_at);

CREATE TABLE regsvc_review (
  id             {id}, -- in order
  user_id        BIGINT NOT NULL, -- of the user at that time
  username       {text:255} NOT NULL, -- as the player writes it
  username_key   {text:255} NOT NULL, -- in lower case
  transition     {text:16} NOT NULL, -- approve, reject, ban, unban, delete
  status_before  {text:16} NOT NULL, -- before it
  status_after   {text:16} NULL, -- after it; empty after a deletion
  reason         {text} NULL, -- told to the user
  ban_expires_at {moment} NULL, -- of a ban
  operator       {text:255} NOT NULL, -- who decided
  reviewed_at    {moment} NOT NULL -- when
);
CREATE INDEX regsvc_review_username_key ON regsvc_review (username_key);

CREATE TABLE regsvc_player (
  username_key      {text:255} PRIMARY KEY, -- the name in lower case, as the plugin's table keeps it
  user_id           BIGINT NULL, -- whose player it is
  presence          {text:8} NOT NULL CHECK (presence IN ('unasked', 'absent', 'present', 'gone')), -- of the row at the last agreement
  base_hash         {text:255} NULL, -- the last agreement: password
  base_salt         {text:255} NULL, -- the last agreement: salt
  base_email        {text:255} NULL, -- the last agreement: e-mail
  base_realname     {text:255} NULL, -- the last agreement: name with its case
  base_regdate      BIGINT NULL, -- the last agreement: registration in the game, ms since 1970; tells one row from another
  wish              {text:16} NULL CHECK (wish IN ('provision', 'password', 'open')), -- what we are about to write
  wish_hash         {text:255} NULL, -- of a row being provisioned
  wish_salt         {text:255} NULL, -- of a row being provisioned
  wish_regdate      BIGINT NULL, -- of a row being provisioned
  lock_reason       {text:16} NULL, -- why we locked the row
  locked_at         {moment} NULL, -- when
  kept_hash         {text:255} NULL, -- the hash the lock replaced
  kept_origin       {text:8} NULL CHECK (kept_origin IN ('agreed', 'stranger')), -- whose it is
  kept_premium_uuid {text:36} NULL, -- emptied by the lock
  tombstone_hash    {text:255} NULL, -- of the row of a user deleted through us
  tombstone_regdate BIGINT NULL, -- of that row
  tombstone_at      {moment} NULL, -- when it was deleted
  conflict          {text:255} NULL, -- what cannot be agreed on, told once
  plugin_state      {text:16} NOT NULL, -- what the user list shows under `plugin`
  plugin_since      {moment} NOT NULL -- since when
);
CREATE INDEX regsvc_player_user_id ON regsvc_player (user_id);
CREATE INDEX regsvc_player_wish ON regsvc_player (wish);

CREATE TABLE regsvc_session (
  jti              {text:32} PRIMARY KEY, -- of the access token; the token itself is kept nowhere
  user_id          BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- whose
  audience         {text:8} NOT NULL CHECK (audience IN ('user', 'admin')), -- which login issued it
  token_generation INTEGER NOT NULL, -- of the user when it was issued
  ip               {text:45} NULL, -- the client's address at login
  created_at       {moment} NOT NULL, -- when it was issued
  last_seen_at     {moment} NOT NULL, -- to the minute
  expires_at       {moment} NOT NULL -- at the latest
);
CREATE INDEX regsvc_session_user_id ON regsvc_session (user_id);
CREATE INDEX regsvc_session_expires_at ON regsvc_session (expires_at);

CREATE TABLE regsvc_known_client (
  id            {id}, -- in order
  user_id       BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- who
  client        {text:45} NOT NULL, -- address; of IPv6 the /64
  last_login_at {moment} NOT NULL, -- the last one that succeeded
  UNIQUE (user_id, client)
);

CREATE TABLE regsvc_verification (
  id             {id}, -- the code is derived from it
  email_key      {text:320} NOT NULL, -- whom it was mailed to
  purpose        {text:16} NOT NULL, -- register, change_email, unlink
  nonce          {text:32} NOT NULL, -- the code is derived from it too
  tries          INTEGER NOT NULL DEFAULT 0, -- wrong codes shown for it
  created_at     {moment} NOT NULL, -- when it was asked for
  handed_over_at {moment} NULL, -- when the mail server took it
  redeemed_at    {moment} NULL -- when it was used
);
CREATE INDEX regsvc_verification_email_key ON regsvc_verification (email_key, purpose);
CREATE INDEX regsvc_verification_created_at ON regsvc_verification (created_at);

CREATE TABLE regsvc_link (
  id          {id}, -- its token is derived from it
  user_id     BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- whose password it sets
  purpose     {text:16} NOT NULL CHECK (purpose IN ('reset', 'first_password')), -- why it was mailed
  email_key   {text:320} NOT NULL, -- whom it was mailed to: it proves this address and no other
  nonce       {text:32} NOT NULL, -- its token is derived from it too
  created_at  {moment} NOT NULL, -- when it was asked for
  expires_at  {moment} NOT NULL, -- at the latest
  redeemed_at {moment} NULL -- when it was used, or made useless
);
CREATE INDEX regsvc_link_user_id ON regsvc_link (user_id);

CREATE TABLE regsvc_outbox (
  id              {id}, -- in order; a recipient gets mails in this order
  kind            {text:16} NOT NULL DEFAULT 'mail', -- how it leaves: mail, webhook
  template        {text:40} NOT NULL, -- which mail; of a webhook, which event
  recipient       {text:320} NOT NULL, -- to whom; of a webhook its name, never its address
  recipient_key   {text:320} NOT NULL, -- as compared
  language        {text:16} NOT NULL, -- of the text
  user_id         BIGINT NULL, -- about whom
  row_id          BIGINT NULL, -- the verification or review it tells of; rendered at delivery
  link_id         BIGINT NULL, -- the mailed link in it
  attempts        INTEGER NOT NULL DEFAULT 0, -- so far
  created_at      {moment} NOT NULL, -- when it was promised
  next_attempt_at {moment} NULL, -- empty when it is over
  done_at         {moment} NULL, -- when it was over
  outcome         {text:16} NULL CHECK (outcome IN ('sent', 'failed', 'dropped')), -- how it ended
  last_error      {text:500} NULL -- of the last attempt that failed
);
CREATE INDEX regsvc_outbox_next_attempt_at ON regsvc_outbox (next_attempt_at);
CREATE INDEX regsvc_outbox_recipient_key ON regsvc_outbox (recipient_key);

CREATE TABLE regsvc_rate_limit (
  id             {id}, -- in order
  scope          {text:40} NOT NULL, -- what is limited
  subject        {text:320} NOT NULL, -- for whom
  period_seconds INTEGER NOT NULL, -- of the limit
  started_at     {moment} NOT NULL, -- of the window under way
  ends_at        {moment} NOT NULL, -- of the window under way
  hits           INTEGER NOT NULL, -- in it
  UNIQUE (scope, subject, period_seconds)
);
CREATE INDEX regsvc_rate_limit_ends_at ON regsvc_rate_limit (ends_at);

CREATE TABLE regsvc_audit (
  id          {id}, -- in order
  action      {text:40} NOT NULL, -- for example user.approved
  operator    {text:255} NOT NULL, -- who: a name, cli:<unix user>, sql, sync, or empty for nobody known
  target      {text:255} NULL, -- to whom, as text
  detail      {text} NULL, -- JSON
  ip          {text:45} NULL, -- the client's address
  tally       {text:64} NULL UNIQUE, -- entries that are counted instead of repeated
  occurrences INTEGER NOT NULL DEFAULT 1, -- how often, of a tallied entry
  created_at  {moment} NOT NULL -- when
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
