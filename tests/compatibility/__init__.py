"""What the released version promises (docs/compatibility.md), written down by `make promise` and compared by tests."""
