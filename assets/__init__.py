"""Data files only: catalogs, scripts, schemas, the toy trainer."""
