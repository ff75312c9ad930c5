"""The API as existing front ends and game proxies expect it.

`aliases` has second names of routes and fields, which are always served. `routes` has what is in force under
`http.legacy_status`: routes that translate, in place of those of the route table.
"""
