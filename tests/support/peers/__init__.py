"""Real servers that the daemon talks to: mail, OAuth 2.0, RCON, the game, webhooks, scoring, updates, MariaDB."""
