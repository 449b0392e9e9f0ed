"""The version of the package; also read, as text, by the build."""

__version__ = "0.1.0"
