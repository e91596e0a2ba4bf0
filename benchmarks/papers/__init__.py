"""The papers' figures and tables, ours beside theirs: each experiment writes a table (CSV) and a figure (PNG)."""
