"""`python -m slowwave` is the command."""

from slowwave.cli.main import main

if __name__ == "__main__":
    main()
