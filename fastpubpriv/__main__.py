"""`python -m fastpubpriv`: the command line, where its script is not on the path."""

from fastpubpriv.cli import main

if __name__ == "__main__":
    main()
