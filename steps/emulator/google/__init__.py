"""The emulated Google services. Modules register their handlers when imported."""
