"""Random schemas, data and statements, run on FirnDB and on its peers."""
