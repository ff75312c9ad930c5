"""AuthMe's table, config and rules."""
