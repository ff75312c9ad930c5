"""`companion doctor`: what is wrong or risky about this installation, in plain sentences."""
