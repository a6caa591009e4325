"""One module per command, with `run(args) -> exit code`. cli.py imports it only when the command is called."""
