"""The Google Cloud interfaces of the rehearsal."""
