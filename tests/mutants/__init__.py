"""Mutation tests of the rules that decide who gets in (`make mutants`)."""
