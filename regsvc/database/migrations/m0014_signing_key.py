"""The fingerprint of the signing key: daemons that share a database and not that key refuse each other's sessions."""

TABLES = """
ALTER TABLE regsvc_installation
  ADD COLUMN signing_key_fingerprint {text:64} NULL -- of the key that signs access tokens, of the last daemon started
;
"""
