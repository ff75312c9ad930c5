"""AuthMe and the game server, for programs that share a machine with them. Independent of the rest of this program.

- `authme/config.py`: AuthMe's config.yml (`config_changes`: live changes).
- `authme/players.py`: records and interface of AuthMe's table; `mysql.py` on a server, `sqlite.py` in its own file
  (`lenient_sqlite`: odd values), `row_writes.py` under its real columns.
- `authme/table_checksums.py`, `authme/sqlite_checksums.py`: changed rows without reading the table.
- `authme/rules.py`: AuthMe's rules for names and passwords.
- `hashers/`: AuthMe's hash algorithms and its password check.
- `server/`: `ops.json` and `server.properties` (`files`), RCON and its commands (`rcon`), `status_ping`,
  `player_uuids`, `plugin_jar`, `versions`.
"""
