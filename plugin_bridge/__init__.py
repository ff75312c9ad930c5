"""AuthMe and the game server, for programs that share a machine with them. Independent of the rest of this program.

- `authme/config.py`: AuthMe's config.yml, and changes of it while it is in use.
- `authme/players.py`: records and interface of AuthMe's table; `table.py`: its real columns; `mysql.py` on a server,
  `sqlite.py` in its own file; `table_checksums.py`: changed rows without reading the table.
- `authme/rules.py`: AuthMe's rules for names and passwords; `limbo.py`: its notes on who is at the login prompt.
- `hashers/`: AuthMe's hash algorithms and its password check.
- `server/`: `ops.json` and `server.properties` (`files`, `operators`), RCON and its commands (`rcon`), `status_ping`,
  `player_uuids`, `allowlist`, `versions`.
"""
