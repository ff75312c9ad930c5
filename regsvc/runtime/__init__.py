"""The running process: jobs, config reload, health, metrics, live events and watchers of the game server."""
