// The two ways in which input can be wrong. bindings.cc turns them into kaldi_punct.errors.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace kaldi_punct {

// A file (transition model, word boundaries) that does not say what its format asks for.
struct FormatError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A lattice that cannot be read, or that cannot be used.
struct LatticeError : FormatError {
  // recoverable: the reader stands behind the bad value, so the entries after it can still be read.
  LatticeError(const std::string& text, uint64_t offset, bool recoverable = false)
      : FormatError(text), offset(offset), recoverable(recoverable) {}

  uint64_t offset;  // bytes from the start of the stream
  bool recoverable;
};

// A value needs more bytes than there are. Not an error while the stream goes on.
struct Truncated {};

}  // namespace kaldi_punct
