"""The reconciliation of our users with AuthMe's players: look at what is, decide what should be, close the difference.

`plan` is pure, `reconciler` closes the difference for one name, `run` goes over all of them, `report` tells.
"""
