"""The emulator's state: records, scheduled events, the clock, and the file that persists them."""
