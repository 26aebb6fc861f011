"""`python -m stream_app.cli`: the command line without its installed script."""

from stream_app.cli import main

main()
