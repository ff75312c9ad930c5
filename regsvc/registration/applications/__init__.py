"""Applications as their applicants see them, and what they may change while they wait for review."""
