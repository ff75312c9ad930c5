"""Synchronization of our users with the players in AuthMe's table.

`plan` decides as a pure function, `reconciler` brings one account in sync, `run` goes over all of them.
"""
