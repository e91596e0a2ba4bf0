"""`PrivateTable`, a table bound to its public rows, ledger and persons, and the files that describe one."""
