"""Crashes, outages and random operations, and what must hold after them."""
