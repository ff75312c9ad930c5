"""The payload of webhook calls, the last second factor used, the address a decision was about, and the last digest.

A column is added by a statement of its own, which SQLite asks for; one that is there already counts as added.
"""

TABLES = """
ALTER TABLE regsvc_outbox
  ADD COLUMN payload {text} NULL -- JSON: what a webhook tells; nothing secret
;
CREATE INDEX regsvc_outbox_outcome ON regsvc_outbox (outcome, id);
CREATE INDEX regsvc_outbox_user_id ON regsvc_outbox (user_id, id);

ALTER TABLE regsvc_user
  ADD COLUMN totp_step BIGINT NULL -- the last half minute whose second factor was used: each is good once
;
ALTER TABLE regsvc_review
  ADD COLUMN email_key {text:320} NULL -- the user's address at that time, as compared
;
UPDATE regsvc_review
  SET email_key = (SELECT u.email_key FROM regsvc_user u WHERE u.id = regsvc_review.user_id)
  WHERE email_key IS NULL;
CREATE INDEX regsvc_review_email_key ON regsvc_review (email_key);

ALTER TABLE regsvc_installation
  ADD COLUMN digested_at {moment} NULL -- when admins were last mailed who waits for a review
;
ALTER TABLE regsvc_installation
  ADD COLUMN digested_user_id BIGINT NULL -- the newest user they know of by such a mail
;
"""
