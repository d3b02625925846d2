"""PyFlink's names, and the differences of flinknet from them."""
