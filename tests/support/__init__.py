"""The real peers that the tests use: MariaDB, AuthMe's table, a game server's folder, a mail server."""
