"""The version of flinknet; the build of the package reads it here.

It is a module of its own, because modules that must not import the package's names need it.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
