"""Synchronization of our users with the players in AuthMe's table.

`plan` decides as a pure function, `pages` brings a page of accounts in sync, `run` goes over all of them.
"""
