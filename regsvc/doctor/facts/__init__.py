"""Facts the checks are based on, by source."""
