"""The service over gRPC: ``Client`` for callers, ``serve`` for the server. Neither loads torch by itself."""

from kaldi_punct.serve.client import Client
from kaldi_punct.serve.server import ServeOptions, serve

__all__ = ["Client", "ServeOptions", "serve"]
