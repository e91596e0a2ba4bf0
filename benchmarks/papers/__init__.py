"""Reproductions of the papers' figures and tables: each experiment writes a table (CSV) and a figure (PNG)."""
