"""The configuration: keys, loading and the rules across keys."""
