"""The outbox and its transports: mail, webhook, RCON."""
