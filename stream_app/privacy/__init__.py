"""Privacy mechanisms as frozen values, with exact channels, certificates and accounting."""
