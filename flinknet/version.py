"""The version of flinknet; what builds the package reads it here."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
