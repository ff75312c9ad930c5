"""Request and reply types, one module per group of routes."""
