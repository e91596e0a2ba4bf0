"""Run the command line by `python -m fastpubpriv`, for example if its script is not on the path."""

from fastpubpriv.cli import main

if __name__ == "__main__":
    main()
