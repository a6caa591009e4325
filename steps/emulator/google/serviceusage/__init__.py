"""Service Usage, and what a disabled API refuses."""
