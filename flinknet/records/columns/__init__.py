"""Arrow record batches as records, and the keyed exchange of their rows."""
