"""The JSON API: the route table, one file per group of routes, and what they share."""
