"""A simulated installation: one seed decides the time, the order of threads, faults, and what everybody does.

`world` has the machine, with two daemons on a database server; `faults` what happens to the database and the processes;
`game`, `people`, `members` and `peers` those who live there, each with what has to be true of it, beside `oracle`.
"""
