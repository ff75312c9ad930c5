"""Synchronization of many accounts at once."""
