"""One command a file: `run(args) -> exit code`. cli.py imports a room only when its command is called."""
