"""A deployment as a bash script of gcloud and kubectl commands, or as an answers file."""
