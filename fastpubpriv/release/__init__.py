"""The trusted core: what a call may spend, and the only place where noise is added."""
