"""The payload of webhook calls, the last second factor used, the address a decision was about, and the last digest.

A column is added by a statement of its own, which SQLite asks for; one that is there already counts as added.
"""

TABLES = """
ALTER TABLE regsvc_outbox
  ADD COLUMN payload {text} NULL -- JSON body of a webhook call; contains no secrets
;
CREATE INDEX regsvc_outbox_outcome ON regsvc_outbox (outcome, id);
CREATE INDEX regsvc_outbox_user_id ON regsvc_outbox (user_id, id);

ALTER TABLE regsvc_user
  ADD COLUMN totp_step BIGINT NULL -- last TOTP time step that was used; each is accepted once
;
ALTER TABLE regsvc_review
  ADD COLUMN email_key {text:320} NULL -- the user's address at that time, normalized for comparison
;
UPDATE regsvc_review
  SET email_key = (SELECT u.email_key FROM regsvc_user u WHERE u.id = regsvc_review.user_id)
  WHERE email_key IS NULL;
CREATE INDEX regsvc_review_email_key ON regsvc_review (email_key);

ALTER TABLE regsvc_installation
  ADD COLUMN digested_at {moment} NULL -- when the last digest was mailed to admins
;
ALTER TABLE regsvc_installation
  ADD COLUMN digested_user_id BIGINT NULL -- newest user in the last digest
;
"""
