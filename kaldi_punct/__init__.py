"""Punctuation and capitals for Kaldi's words: ``kaldi_punct.load("en")`` and call it."""
