"""The papers' figures and examples, ours beside theirs: each writes a table (CSV) and a figure (PNG)."""
