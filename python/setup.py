"""Packs a module that CMake has built (scripts/wheel); the rest is in pyproject.toml."""

import os

from setuptools import Distribution, setup


class Built(Distribution):
    """A package with a native part, so that the wheel is one for this Python and this machine."""

    def has_ext_modules(self) -> bool:
        return True


setup(version=os.environ["PARE_VERSION"], distclass=Built)
