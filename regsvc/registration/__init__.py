"""Becoming a user."""
