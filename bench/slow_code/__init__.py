"""What user code that takes long costs what runs beside it in the same worker."""
