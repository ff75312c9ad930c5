"""Languages, and texts in them."""
