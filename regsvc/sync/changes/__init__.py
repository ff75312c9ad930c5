"""Detection of the accounts that a sync run has to look at."""
