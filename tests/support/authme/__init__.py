"""The game server's folder and AuthMe: its table, its config, and the plugin as players meet it."""
