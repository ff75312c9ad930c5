"""The webhook: events, messages and delivery."""
