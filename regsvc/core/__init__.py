"""Building blocks for every package: errors, clock, translations, units, addresses, HTTP client."""
