"""Request handlers, one module per group of routes."""
