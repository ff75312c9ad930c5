"""Everything we keep, carried elsewhere: into another database, a backup, a file for others, and back."""
