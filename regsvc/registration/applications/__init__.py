"""What applicants see of their applications, and may change while they wait for review."""
