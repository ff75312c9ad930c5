"""What every package may use: errors, clock, translations, units, addresses, HTTP client."""
