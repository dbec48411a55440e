// The path of a lattice whose words are closest to a reference: lattice-oracle.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lattice.h"
#include "paths.h"

namespace kaldi_punct {

struct OraclePath {
  std::vector<int32_t> words;  // without zeros and wildcards
  int32_t n_correct = 0;
  int32_t n_substitutions = 0;
  int32_t n_insertions = 0;  // words of the path that the reference has not
  int32_t n_deletions = 0;
};

// Of paths equally close, the one of least scaled cost. Wildcards count as no word, in the lattice and the reference.
// Nothing if no path leads to a final state. Throws LatticeError where states times reference words are too many.
std::optional<OraclePath> oracle_path(const Lattice& lattice, const std::vector<int32_t>& reference,
                                      const std::vector<int32_t>& wildcards, const Scales& scales);

}  // namespace kaldi_punct
