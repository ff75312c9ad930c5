"""The game's allowlist as a gate: who may play is on it, and who may not is not."""
