"""Backup, restore, export, import and migration to another database."""
