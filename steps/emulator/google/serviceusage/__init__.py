"""Service Usage, and the errors of disabled APIs."""
