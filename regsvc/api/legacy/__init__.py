"""The API as existing front ends and game proxies expect it, in force under `http.legacy_status`.

Everything that differs is here: `routes` replaces handlers in the route table with ones that translate.
"""
