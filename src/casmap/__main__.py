"""`python -m casmap` is `casmap`."""

from casmap.cli.main import main

main()
