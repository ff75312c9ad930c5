"""Without two indexes: nobody looks for wishes, and a typed status is found by `changed_at`, which typing it sets."""

TABLES = """
DROP INDEX regsvc_player_wish ON regsvc_player;
DROP INDEX regsvc_user_edited ON regsvc_user;
"""
