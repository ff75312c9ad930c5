"""Verification codes: which client asked, so that others cannot use up its attempts. Known clients are found by address."""

TABLES = """
ALTER TABLE regsvc_verification
  ADD COLUMN client {text:45} NOT NULL DEFAULT '' -- client that asked last: IPv4 address, or /64 of an IPv6 address
;
ALTER TABLE regsvc_verification
  ADD COLUMN other_tries INTEGER NOT NULL DEFAULT 0 -- wrong attempts of other clients
;
CREATE INDEX regsvc_known_client_client ON regsvc_known_client (client, last_login_at);
"""
