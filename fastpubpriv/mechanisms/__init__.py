"""Integer queries on private rows and their releases, each with a proof of its privacy in `notes/`."""
