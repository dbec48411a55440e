#include "word_graph.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "errors.h"

namespace kaldi_punct {
namespace {

constexpr uint32_t kUnused = UINT32_MAX;

struct Link {
  uint32_t from;
  uint32_t to;
  int32_t word;
  uint32_t n_frames;
  double loglike;
};

// Rounded as in Kaldi, which holds costs as floats: where two alignments are equally good up to rounding, the same one
// should win.
double loglike_of(const Weight& weight, bool has_word, const Scales& scales) {
  const float graph_cost = static_cast<float>(weight.graph + (has_word ? scales.word_ins_penalty : 0));
  const float graph = static_cast<float>(scales.lm * graph_cost);
  const float acoustic = static_cast<float>(static_cast<float>(scales.acoustic) * weight.acoustic);
  return -static_cast<double>(graph + acoustic);
}

// The states in an order in which arcs lead forward; their own order if that is one, as in what Kaldi writes.
std::vector<int32_t> states_in_order(const Lattice& lattice) {
  for (size_t s = 0; s < lattice.states.size(); ++s) {
    const State& state = lattice.states[s];
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a)
      if (lattice.arcs[a].next <= static_cast<int32_t>(s)) return lattice.order;
  }
  std::vector<int32_t> order(lattice.states.size());
  for (size_t s = 0; s < order.size(); ++s) order[s] = static_cast<int32_t>(s);
  return order;
}

class GraphMaker {
 public:
  GraphMaker(const Lattice& lattice, const Scales& scales)
      : lattice_(lattice), scales_(scales), order_(states_in_order(lattice)) {}

  WordGraph make() {
    number_states();
    WordGraph graph;
    if (n_nodes_ == 0) return graph;
    link_states();
    sort_links(&graph);
    weigh(&graph);
    return graph;
  }

 private:
  // Numbers those on a complete path.
  void number_states() {
    const size_t n = lattice_.states.size();
    std::vector<char> is_reached(n, 0), has_end(n, 0);
    if (lattice_.start >= 0) is_reached[lattice_.start] = 1;
    for (const int32_t s : order_)
      if (is_reached[s]) each_arc(s, [&](const Arc& arc) { is_reached[arc.next] = 1; });
    for (auto s = order_.rbegin(); s != order_.rend(); ++s) {
      has_end[*s] = lattice_.states[*s].is_final;
      each_arc(*s, [&](const Arc& arc) { has_end[*s] |= has_end[arc.next]; });
    }
    node_.assign(n, kUnused);
    for (const int32_t s : order_)
      if (is_reached[s] && has_end[s]) node_[s] = n_nodes_++;
  }

  void link_states() {
    const bool needs_end = !has_plain_end();
    for (const int32_t s : order_) {
      if (node_[s] == kUnused) continue;
      each_arc(s, [&](const Arc& arc) {
        if (node_[arc.next] != kUnused) add_link(s, node_[arc.next], arc.word, arc.weight);
      });
      if (needs_end && lattice_.states[s].is_final) add_link(s, n_nodes_, 0, lattice_.states[s].final_weight);
    }
    n_nodes_ += needs_end;
  }

  // One final state, with nothing to it: it serves as the end. An arc more would be a place more for "no word".
  bool has_plain_end() const {
    size_t n_final = 0;
    const State* last = nullptr;
    for (size_t s = 0; s < node_.size(); ++s)
      if (node_[s] != kUnused && lattice_.states[s].is_final) {
        ++n_final;
        last = &lattice_.states[s];
      }
    const Weight& weight = last->final_weight;
    return n_final == 1 && last->n_arcs == 0 && weight.graph == 0 && weight.acoustic == 0 && weight.n_tids == 0;
  }

  void add_link(int32_t from, uint32_t to, int32_t word, const Weight& weight) {
    const double loglike = loglike_of(weight, word != 0, scales_);
    if (!std::isfinite(loglike)) fail(weight);
    links_.push_back({node_[from], to, word, weight.n_tids, loglike});
  }

  [[noreturn]] static void fail(const Weight& weight) {
    std::ostringstream text;
    text << "expected costs that are finite once scaled, got graph cost " << weight.graph << " and acoustic cost "
         << weight.acoustic << "; is the scale right?";
    throw LatticeError(text.str(), 0);
  }

  void sort_links(WordGraph* graph) {
    graph->first_arc.assign(n_nodes_ + 1, 0);
    graph->n_out.assign(n_nodes_, 0);
    for (const Link& link : links_) {
      ++graph->first_arc[link.to + 1];
      ++graph->n_out[link.from];
    }
    for (uint32_t n = 0; n < n_nodes_; ++n) graph->first_arc[n + 1] += graph->first_arc[n];
    std::vector<uint64_t> at(graph->first_arc.begin(), graph->first_arc.end() - 1);
    std::vector<Link> sorted(links_.size());
    for (const Link& link : links_) sorted[at[link.to]++] = link;
    links_ = std::move(sorted);
  }

  void weigh(WordGraph* graph) const {
    graph->times.assign(n_nodes_, 0);
    graph->arcs.resize(links_.size());
    std::vector<double> alpha(n_nodes_, 0);  // logarithm of the sum over the paths to a node
    for (uint32_t n = 1; n < n_nodes_; ++n) {
      alpha[n] = -HUGE_VAL;
      for (uint64_t i = graph->first_arc[n]; i < graph->first_arc[n + 1]; ++i) {
        const Link& link = links_[i];
        alpha[n] = log_add(alpha[n], alpha[link.from] + link.loglike);
        graph->times[n] = std::max(graph->times[n], graph->times[link.from] + static_cast<int32_t>(link.n_frames));
      }
      for (uint64_t i = graph->first_arc[n]; i < graph->first_arc[n + 1]; ++i) {
        const Link& link = links_[i];
        graph->arcs[i] = {link.word, link.from, std::exp(alpha[link.from] + link.loglike - alpha[n])};
      }
    }
  }

  // log(exp(a) + exp(b))
  static double log_add(double a, double b) {
    if (a < b) std::swap(a, b);
    return std::isinf(b) ? a : a + std::log1p(std::exp(b - a));
  }

  template <class Take>
  void each_arc(int32_t s, Take take) const {
    const State& state = lattice_.states[s];
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) take(lattice_.arcs[a]);
  }

  const Lattice& lattice_;
  const Scales& scales_;
  std::vector<int32_t> order_;
  std::vector<uint32_t> node_;  // of each state
  uint32_t n_nodes_ = 0;
  std::vector<Link> links_;
};

}  // namespace

WordGraph make_word_graph(const Lattice& lattice, const Scales& scales) { return GraphMaker(lattice, scales).make(); }

}  // namespace kaldi_punct
