#include "search_graph.h"

#include <algorithm>
#include <string>
#include <utility>

#include "errors.h"

namespace kaldi_punct {
namespace {

// Bounds of memory: about 1 GB in all.
constexpr int64_t kMostNodes = 4'000'000;
constexpr size_t kMostInts = size_t{1} << 26;

bool same(const std::vector<int32_t>& pool, Span a, Span b) {
  return a.n == b.n && (a.first == b.first || std::equal(pool.begin() + static_cast<ptrdiff_t>(a.first),
                                                         pool.begin() + static_cast<ptrdiff_t>(a.first + a.n),
                                                         pool.begin() + static_cast<ptrdiff_t>(b.first)));
}

}  // namespace

SearchGraph::SearchGraph(std::vector<int32_t> ranks, int64_t max_nodes, std::vector<int32_t> items,
                         std::vector<int32_t> words)
    : items(std::move(items)),
      words(std::move(words)),
      ranks_(std::move(ranks)),
      max_nodes_(max_nodes),
      index_(4 * ranks_.size()) {
  nodes_.reserve(4 * ranks_.size());
  graph_.states.reserve(4 * ranks_.size());
  graph_.arcs.reserve(4 * ranks_.size());
}

int32_t SearchGraph::add(const SearchNode& node) {
  const Pending& pending = node.pending;
  uint64_t hash = mix(static_cast<uint64_t>(node.state), node.tag);
  hash = hash_ints(hash, items.data() + pending.items.first, pending.items.n);
  hash = hash_ints(mix(hash, pending.items.n), words.data() + pending.words.first, pending.words.n);
  const int32_t found = index_.find(hash, [&](int32_t i) {
    const SearchNode& other = nodes_[static_cast<size_t>(i)];
    return other.state == node.state && other.tag == node.tag && same(items, other.pending.items, pending.items) &&
           same(words, other.pending.words, pending.words);
  });
  if (found >= 0) return found;
  const int32_t made = static_cast<int32_t>(nodes_.size());
  nodes_.push_back(node);
  graph_.states.emplace_back();
  check_size();
  index_.add(hash, made);
  const uint32_t n_pending = pending.items.n + pending.words.n;
  queue_.push({static_cast<uint64_t>(ranks_[static_cast<size_t>(node.state)]) << 32 | (UINT32_MAX - n_pending), made});
  return made;
}

int32_t SearchGraph::add_extended(const SearchNode& node, Span more_items, Span more_words) {
  const size_t n_items = items.size(), n_words = words.size();
  SearchNode extended = node;
  extended.pending = {extend(&items, node.pending.items, more_items), extend(&words, node.pending.words, more_words)};
  const size_t n_nodes = nodes_.size();
  const int32_t number = add(extended);
  if (nodes_.size() == n_nodes) {  // an old one, which has its own
    items.resize(n_items);
    words.resize(n_words);
  }
  return number;
}

bool SearchGraph::next(int32_t* node) {
  if (queue_.empty()) return false;
  *node = queue_.top().node;
  queue_.pop();
  graph_.order.push_back(*node);
  graph_.states[static_cast<size_t>(*node)].first_arc = graph_.arcs.size();
  return true;
}

void SearchGraph::add_arc(int32_t label, int32_t to, const Weight& weight) {
  graph_.arcs.push_back({label, to, weight});
  ++graph_.states[static_cast<size_t>(graph_.order.back())].n_arcs;
}

void SearchGraph::add_late_arc(int32_t from, int32_t label, int32_t to, const Weight& weight) {
  graph_.states[static_cast<size_t>(from)].first_arc = graph_.arcs.size();
  graph_.states[static_cast<size_t>(from)].n_arcs = 1;
  graph_.arcs.push_back({label, to, weight});
}

void SearchGraph::set_final(int32_t node, const Weight& weight) {
  graph_.states[static_cast<size_t>(node)].is_final = true;
  graph_.states[static_cast<size_t>(node)].final_weight = weight;
}

Lattice SearchGraph::take_graph() {
  for (; !queue_.empty(); queue_.pop()) graph_.order.push_back(queue_.top().node);
  graph_.start = graph_.states.empty() ? -1 : 0;
  return std::exchange(graph_, {});
}

void SearchGraph::check_ints(size_t n) const {
  if (n > kMostInts) fail_size();
}

void SearchGraph::check_size() const {
  if (static_cast<int64_t>(nodes_.size()) > std::min(max_nodes_, kMostNodes)) fail_size();
  check_ints(items.size());
  check_ints(words.size());
}

void SearchGraph::fail_size() const {
  throw LatticeError("expected an alignment of at most " + std::to_string(std::min(max_nodes_, kMostNodes)) +
                         " states, got more (the lattice has " + std::to_string(ranks_.size() - 1) +
                         "); is it of this model, and determinized? prune it, or allow more with max_expand",
                     0);
}

Span extend(std::vector<int32_t>* pool, Span span, Span more) {
  if (more.n == 0) return span;
  if (span.n == 0) return more;
  if (span.first + span.n == more.first) return {span.first, span.n + more.n};
  const size_t first = pool->size();
  pool->resize(first + span.n + more.n);
  int32_t* out = std::copy_n(pool->data() + span.first, span.n, pool->data() + first);
  std::copy_n(pool->data() + more.first, more.n, out);
  return {first, span.n + more.n};
}

std::vector<int32_t> ranks_of(const Lattice& lattice) {
  std::vector<int32_t> ranks(lattice.states.size() + 1);
  for (size_t i = 0; i < lattice.order.size(); ++i)
    ranks[static_cast<size_t>(lattice.order[i])] = static_cast<int32_t>(i);
  ranks.back() = static_cast<int32_t>(lattice.states.size());
  return ranks;
}

int64_t max_nodes(double max_expand, size_t n_states) {
  if (max_expand <= 0) return kMostNodes;
  // Kaldi's allowance for small lattices.
  return static_cast<int64_t>(std::min(1000 + max_expand * static_cast<double>(n_states), 1e9));
}

}  // namespace kaldi_punct
