"""The running process: jobs, reload, health, metrics, live events."""
