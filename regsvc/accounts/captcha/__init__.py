"""Captchas: challenges, pictures and their store."""
