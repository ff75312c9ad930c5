"""Decisions in the team's chats: applications are told there, and decided by the people who are linked."""
