"""The stand-in for the outside: a server in a process of its own."""
