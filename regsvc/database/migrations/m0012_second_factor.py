"""The second factor that users set up on the web, and its recovery codes."""

TABLES = """
ALTER TABLE regsvc_user
  ADD COLUMN totp_nonce {text:32} NULL -- from which the secret of the second factor is derived; the secret itself is not stored
;
ALTER TABLE regsvc_user
  ADD COLUMN totp_enabled_at {moment} NULL -- when a code confirmed the second factor; empty: there is none, or it is not confirmed
;

CREATE TABLE regsvc_recovery_code (
  id         {id}, -- in order
  user_id    BIGINT NOT NULL REFERENCES regsvc_user (id) ON DELETE CASCADE, -- user
  code_hash  {text:64} NOT NULL, -- keyed hash of a code that was not used yet; the code itself is not stored
  created_at {moment} NOT NULL, -- when it was shown
  UNIQUE (user_id, code_hash)
);
"""
