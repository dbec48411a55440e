// The graph that aligners grow: a node is a state of the lattice, with what the paths to it have read but not put out.
//
// Arcs that only read are epsilons; the others put out a label with its frames (epsilons.h removes the former). The
// strings of all nodes lie in two pools, and share what they have in common there.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "hash_index.h"
#include "lattice.h"

namespace kaldi_punct {

struct Span {
  uint64_t first = 0;
  uint32_t n = 0;

  Span behind(uint32_t n_off) const { return {first + n_off, n - n_off}; }
};

// Both spans of the pool, the one behind the other. Copies nothing where they lie so already.
Span extend(std::vector<int32_t>* pool, Span span, Span more);

// What was read but not put out: items (transition-ids, or numbers of phones) and words.
struct Pending {
  Span items;
  Span words;
};

struct SearchNode {
  Pending pending;
  int32_t state = 0;  // of the lattice
  uint32_t tag = 0;   // whatever else tells nodes apart
};

class SearchGraph {
 public:
  // ranks: of the lattice's states; arcs of the lattice lead to higher ones. max_nodes: LatticeError beyond.
  // items, words: what the pools begin with.
  SearchGraph(std::vector<int32_t> ranks, int64_t max_nodes, std::vector<int32_t> items, std::vector<int32_t> words);

  std::vector<int32_t> items;
  std::vector<int32_t> words;

  const SearchNode& node(int32_t i) const { return nodes_[static_cast<size_t>(i)]; }

  // Finds or makes a node.
  int32_t add(const SearchNode& node);

  // As add, for `node` with more items and words at the end of its own; both spans lie in the pools.
  int32_t add_extended(const SearchNode& node, Span more_items, Span more_words);

  // Takes up the next node whose arcs are to be added; false if there is none. An arc must lead to a higher rank, or
  // leave fewer items and words: then nodes come in topological order.
  bool next(int32_t* node);

  // An arc out of the node taken up last.
  void add_arc(int32_t label, int32_t to, const Weight& weight);

  // An arc out of a node without arcs, after all were taken up, to one that gets no arcs.
  void add_late_arc(int32_t from, int32_t label, int32_t to, const Weight& weight);

  void set_final(int32_t node, const Weight& weight);
  bool has_arcs(int32_t node) const { return graph_.states[static_cast<size_t>(node)].n_arcs > 0; }

  // Nodes as states, arcs with labels as words; no transition-ids: those are the caller's. Leaves the graph empty.
  Lattice take_graph();

  // Throws LatticeError if a pool of so many integers is too large.
  void check_ints(size_t n) const;

 private:
  void check_size() const;
  [[noreturn]] void fail_size() const;

  struct Entry {
    uint64_t key;
    int32_t node;
    bool operator>(const Entry& other) const { return key > other.key; }
  };

  std::vector<int32_t> ranks_;
  int64_t max_nodes_;
  std::vector<SearchNode> nodes_;
  HashIndex index_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue_;
  Lattice graph_;
};

// The rank of each state: its place in lattice.order; and one more behind all, for a state behind the final ones.
std::vector<int32_t> ranks_of(const Lattice& lattice);

// Kaldi's --max-expand as a number of nodes; 0: only what memory allows.
int64_t max_nodes(double max_expand, size_t n_states);

}  // namespace kaldi_punct
