"""The only floor that touches private rows: integer queries, exact noise, and the proofs beside them (`notes/`)."""
