// Minimum Bayes risk decoding: the words of least expected word error, and how sure each of them is.
//
// The recursion over the edit distance of Xu, Povey, Mangu and Zhu, "Minimum Bayes Risk decoding and system combination
// based on a recursion for edit distance" (2011), with the choices that Kaldi's lat/sausages.{h,cc} made within it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lattice.h"
#include "paths.h"

namespace kaldi_punct {

struct MbrOptions {
  bool decode_mbr = true;      // false: the words stay those of the best path, only their confidences are found
  bool print_silence = false;  // bins without a word stay among the one-best words, as word 0
};

// A word that may stand in a bin. Times are in frames.
struct BinWord {
  int32_t word = 0;  // 0: none
  float posterior = 0;
  double begin = 0;
  double end = 0;
};

// A place in the sausage, likeliest word first; the posteriors sum to 1.
struct Bin {
  std::vector<BinWord> words;
  double begin = 0;  // averaged over the words; bins do not overlap
  double end = 0;
};

struct Sausage {
  std::vector<Bin> bins;          // one for each word, and one before, between and after them
  std::vector<BinWord> one_best;  // posterior: its confidence; times of neighbours do not overlap
  double bayes_risk = 0;          // expected number of word errors
  bool is_settled = true;         // false: the words still changed when it was given up
};

// Times mean something if the lattice is word-aligned. Where paths to one state differ in length the longest counts.
// words: start from these in place of the best path's; without zeros. Nothing if no path leads to a final state. Throws
// LatticeError if the lattice and its words are too many to be aligned.
std::optional<Sausage> decode_mbr(const Lattice& lattice, const Scales& scales, const MbrOptions& options,
                                  const std::optional<std::vector<int32_t>>& words = std::nullopt);

}  // namespace kaldi_punct
