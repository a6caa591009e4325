"""The emulator's HTTP server: routing, authentication, request validation, recording, TLS."""
