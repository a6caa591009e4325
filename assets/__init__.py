"""Data only: manifests, scripts, catalogues."""
