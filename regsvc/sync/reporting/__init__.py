"""Reports of what sync runs leave to the host: dates that cannot be read, and sentences about them."""
