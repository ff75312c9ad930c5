"""The real neighbours the tests talk to: MariaDB, AuthMe's table, a game server's folder, a mail server."""
