"""Linking a chat account during registration and afterwards."""
