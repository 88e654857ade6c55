"""`python -m extractor` is the `vextract` command."""

from extractor.cli import main

if __name__ == "__main__":
    main()
