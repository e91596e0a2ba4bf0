"""The trusted core: the account of a call, and the only place where noise is added to private values.

To verify the privacy of the library, read this folder, `privacy/events.py` and the notes (`mechanisms/notes/*.md`, one for each
kind of release), and check that

1. `release.py` charges before the query runs, runs it once, takes a key only afterwards, and returns only the noisy answer
   (`notes/release.md`; for choices `notes/selection.md`; for occupied bins `notes/stable_histogram.md`);
2. `account.py` debits the ledger before the first release, and with `transcript.py` refuses an event that is unknown, of another
   relation, or that draws more noise than the budget was corrected for;
3. `Spending` in `account.py` adds up the costs of events by the rule of each notion and never exceeds the allowance;
   `TreeBudget` does so by depth for the nodes of a cluster tree (`notes/leaf_second_moments.md`);
4. each event states the sensitivity proven in its note, and the cost that follows from it.

`transcript.py` records exact private integers for tests and audits (`fastpubpriv.auditing`); it is off in ordinary use. The import
contracts in `pyproject.toml` ensure that no other folder imports noise or keys.
"""
