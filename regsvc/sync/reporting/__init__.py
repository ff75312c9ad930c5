"""Reports of sync runs for the host: audit entries, log lines and the sentences in them and in plans."""
