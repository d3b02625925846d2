"""PyFlink's names, and how flinknet differs from them."""
