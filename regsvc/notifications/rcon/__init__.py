"""RCON commands to the game server as outbox messages."""
