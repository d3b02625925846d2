"""The version of flinknet; the build of the package reads it here."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
