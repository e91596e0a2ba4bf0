"""`python -m benchmarks` prints the table of speed; see `benchmarks/table.py`."""

from benchmarks.table import main

if __name__ == "__main__":
    main()
