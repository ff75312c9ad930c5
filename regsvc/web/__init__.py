"""Our own pages and the host's front end."""
