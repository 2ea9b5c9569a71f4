"""`python -m memdb`, the same as the command `memdb`."""

from memdb.serve.cli import main

if __name__ == "__main__":
    main()
