"""The trusted core: what a call may spend, and the only place where noise is added to something private.

A reader who wants to check the privacy of the library reads this folder, `privacy/events.py` and the notes
(`mechanisms/notes/*.md`, one for each kind of release), and checks that

1. `release.py` charges before it asks, asks once, takes a key only then, and returns nothing but the noisy answer
   (`notes/release.md`; for choices `notes/selection.md`; for occupied bins `notes/stable_histogram.md`);
2. `account.py` debits the ledger before the first release, and with `transcript.py` refuses an event that is unknown, of another
   relation, or that draws more noise than the budget was corrected for;
3. a `Spending` in `account.py` adds up what events cost, one class for each way to spend a budget, and never passes the
   allowance; the account does so by depth for the nodes of a cluster tree (`notes/leaf_second_moments.md`);
4. each event states the sensitivity that its note proves, and the cost that follows from it.

`transcript.py` holds exact private integers for tests and audits (`fastpubpriv.auditing`); it is off in ordinary use. No other
folder imports noise or keys: the import contracts in `pyproject.toml` see to that.
"""
