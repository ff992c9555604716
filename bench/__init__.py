"""Every benchmark of FirnDB beside its peers: ``python -m bench [NAME …]``."""
