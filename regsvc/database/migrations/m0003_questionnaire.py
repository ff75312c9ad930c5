"""Questionnaire results: stored before the user exists, then linked to the user for the review."""

TABLES = """
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
"""
