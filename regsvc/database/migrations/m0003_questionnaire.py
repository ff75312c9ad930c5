"""Questionnaire results: stored before the user exists, then linked to the user for the review."""

TABLES = """
CREATE TABLE regsvc_questionnaire_result (
  id              {id}, -- its token is derived from it
  nonce           {text:32} NOT NULL, -- its token is derived from it too
  user_id         BIGINT NULL UNIQUE REFERENCES regsvc_user (id) ON DELETE CASCADE, -- who registered with it; empty: nobody yet
  score           INTEGER NOT NULL, -- points, as far as they are known; never below 0
  max_score       INTEGER NOT NULL, -- points there were to have
  pass_score      INTEGER NOT NULL, -- points that were needed
  is_passed       {bool} NOT NULL, -- good enough to register, or may become so once somebody has read it
  requires_review {bool} NOT NULL, -- somebody has to read it before the applicant may play
  summary         {text:1000} NOT NULL, -- in words, for the review queue
  answers         {long_text} NOT NULL, -- JSON: each question as it was asked, with its answer and points
  submitted_at    {moment} NOT NULL, -- when it was answered
  expires_at      {moment} NULL -- until then somebody may register with it; empty once somebody has
);
CREATE INDEX regsvc_questionnaire_result_expires_at ON regsvc_questionnaire_result (expires_at);
"""
