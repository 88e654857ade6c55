"""`python -m extractor`."""

from extractor.cli import main

if __name__ == "__main__":
    main()
