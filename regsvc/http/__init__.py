"""The HTTP framework: the route table, calls, JSON, the OpenAPI document, connections, the server."""
