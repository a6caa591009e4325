"""The API server: paths, kinds, verbs, validation, storage, watches."""
