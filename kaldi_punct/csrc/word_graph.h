// A lattice as minimum Bayes risk decoding sees it: states in order, one end, and on each arc its share of the paths.
#pragma once

#include <cstdint>
#include <vector>

#include "lattice.h"
#include "paths.h"

namespace kaldi_punct {

struct GraphArc {
  int32_t word = 0;   // 0: none
  uint32_t from = 0;  // node
  double share = 0;   // of all paths to the node that the arc leads to, those that come this way; sums to 1
};

// Nodes are numbered from the start, 0, to the end, each after those that lead to it. All lie on a complete path.
struct WordGraph {
  std::vector<uint64_t> first_arc;  // into `arcs`, of those that lead to node n: from first_arc[n] to first_arc[n + 1]
  std::vector<GraphArc> arcs;
  std::vector<uint32_t> n_out;  // arcs that leave each node
  std::vector<int32_t> times;   // of each node, in frames; of its longest path

  uint32_t n_nodes() const { return static_cast<uint32_t>(times.size()); }
};

// No nodes if no path leads to a final state. Throws LatticeError for a cost that no scaled float can hold.
WordGraph make_word_graph(const Lattice& lattice, const Scales& scales);

}  // namespace kaldi_punct
