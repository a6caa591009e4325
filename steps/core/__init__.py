"""The vocabulary that every layer shares: fields, checks, resources, events, validators, and data files. Imports no other package of `steps`."""
