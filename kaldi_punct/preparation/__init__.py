"""Corpora as they are shipped -> punctuated Kaldi data directories; subsets of them, and what they hold."""
