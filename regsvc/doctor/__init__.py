"""`companion doctor`: checks that report what is wrong or risky about this installation, in plain sentences."""
