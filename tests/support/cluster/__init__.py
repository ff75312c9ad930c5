"""Galera nodes, HAProxy and companions for the stories in `tests/cluster`."""
