"""The JSON API: the route table, handlers by groups of routes, and what they share."""
