"""Authentication: keys, sessions, codes, password links, hashing, TOTP and rate limits."""
