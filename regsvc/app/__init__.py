"""Wiring: creates every service and passes each one what it needs."""
