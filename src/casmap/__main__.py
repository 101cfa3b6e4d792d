"""`python -m casmap` is `casmap`."""

from casmap.cli import main

main()
