"""E-mail: queueing, rendering and delivery."""
