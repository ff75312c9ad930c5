"""The commands of `companion`."""
