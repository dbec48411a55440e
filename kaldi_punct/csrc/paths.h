// The best paths through a lattice.
#pragma once

#include <cstdint>
#include <vector>

#include "lattice.h"

namespace kaldi_punct {

// The cost of a path is lm * (graph + word_ins_penalty * words) + acoustic * acoustic_cost.
struct Scales {
  double lm = 1;
  double acoustic = 1;
  double word_ins_penalty = 0;
};

// The scaled cost of an arc's or final state's weight.
inline double scaled_cost(const Weight& weight, bool has_word, const Scales& scales) {
  return scales.lm * (weight.graph + (has_word ? scales.word_ins_penalty : 0)) + scales.acoustic * weight.acoustic;
}

struct Path {
  std::vector<int32_t> words;  // without zeros
  std::vector<int32_t> tids;   // one a frame
  std::vector<uint64_t> arcs;  // index into Lattice::arcs
  double graph_cost = 0;       // unscaled; holds the word insertion penalty, as after lattice-add-penalty
  double acoustic_cost = 0;    // unscaled
  double total_cost = 0;       // scaled, as above
};

// The n paths of least total cost, best first (fewer if there are fewer). Exact; of two equal paths the one with the
// lower graph cost goes first. Words of two paths differ as far as the lattice is determinized, as in lattice-to-nbest.
std::vector<Path> best_paths(const Lattice& lattice, size_t n, const Scales& scales);

// -log(exp(-a) + exp(-b))
double log_add(double a, double b);

// Negated logarithm of the sum over all paths of exp(-total cost); infinite if there is no path.
double total_cost_of_all(const Lattice& lattice, const Scales& scales);

}  // namespace kaldi_punct
