"""The process: command line, signals, start, stop."""
