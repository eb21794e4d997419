"""Command line tools of the repository."""
