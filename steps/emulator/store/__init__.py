"""The emulator's data: resources, operations, clock, and the file that keeps them."""
