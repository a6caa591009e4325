"""Step 1, Project: the project itself, its APIs, roles, and organization policies."""
