"""`companion install` and `uninstall`."""
