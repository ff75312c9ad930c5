"""The game server's files, RCON and status."""
