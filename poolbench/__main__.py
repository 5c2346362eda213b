"""``python -m poolbench`` is the same as the ``poolbench`` command."""

from poolbench.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
