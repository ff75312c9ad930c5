"""On SQLite an adoption as approved is not marked as changed, as it never was on MySQL: it leaves nothing to do.

Otherwise each of thousands of adopted players would be written twice, and its marks indexed twice.
"""

_NOW = "strftime('%Y-%m-%d %H:%M:%f', 'now')"

TRIGGERS = {
    "sqlite": [
        "DROP TRIGGER IF EXISTS regsvc_user_is_new",
        "DROP TRIGGER IF EXISTS regsvc_player_is_new",
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_user_is_new AFTER INSERT ON regsvc_user
        WHEN NEW.changed_at IS NULL AND NOT (NEW.origin = 'adopted' AND NEW.status = 'approved')
        BEGIN UPDATE regsvc_user SET changed_at = {_NOW} WHERE id = NEW.id; END
        """,  # noqa: S608 - a constant
        f"""
        CREATE TRIGGER IF NOT EXISTS regsvc_player_is_new AFTER INSERT ON regsvc_player
        WHEN NEW.changed_at IS NULL AND NOT (NEW.presence = 'present' AND NEW.locked_at IS NULL)
        BEGIN UPDATE regsvc_player SET changed_at = {_NOW} WHERE username_key = NEW.username_key; END
        """,  # noqa: S608 - a constant
        "DROP INDEX IF EXISTS regsvc_user_changed_at",
        "DROP INDEX IF EXISTS regsvc_player_changed_at",
        "CREATE INDEX IF NOT EXISTS regsvc_user_changed_at ON regsvc_user (changed_at) WHERE changed_at IS NOT NULL",
        "CREATE INDEX IF NOT EXISTS regsvc_player_changed_at ON regsvc_player (changed_at) "
        "WHERE changed_at IS NOT NULL",
    ],
}
