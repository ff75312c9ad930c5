"""Generators for the sample config and the reference pages in `docs/`."""
