"""The doctor's sources of facts."""
