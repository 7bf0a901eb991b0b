"""``python -m mtp_tutorial.cli``."""

from . import main

main()
