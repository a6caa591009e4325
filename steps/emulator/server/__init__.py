"""The emulator's HTTP server: routing, request validation, authentication, TLS."""
