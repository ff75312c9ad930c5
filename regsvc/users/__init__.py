"""Our side alone: users, their statuses, lists and names."""
