"""What runs of the sync report besides their counts: dates that cannot be read, and sentences for hosts."""
