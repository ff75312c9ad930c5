"""Users on our side: statuses, lists, details, export, retention and chat links."""
