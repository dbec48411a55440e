#include "epsilons.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "errors.h"

namespace kaldi_punct {
namespace {

constexpr size_t kMostArcs = 10'000'000;  // 400 MB

// a followed by b.
Weight times(const Weight& a, const Weight& b, std::vector<int32_t>* tids) {
  Weight both{a.graph + b.graph, a.acoustic + b.acoustic, a.first_tid, a.n_tids + b.n_tids};
  if (a.n_tids == 0) {
    both.first_tid = b.first_tid;
  } else if (b.n_tids > 0 && a.first_tid + a.n_tids != b.first_tid) {
    both.first_tid = tids->size();
    tids->resize(tids->size() + both.n_tids);
    int32_t* out = std::copy_n(tids->data() + a.first_tid, a.n_tids, tids->data() + both.first_tid);
    std::copy_n(tids->data() + b.first_tid, b.n_tids, out);
  }
  return both;
}

class Removal {
 public:
  explicit Removal(Lattice graph)
      : graph_(std::move(graph)),
        leads_to_final_(leads_to_final(graph_)),
        place_(graph_.states.size()),
        best_(graph_.states.size()),
        seen_by_(graph_.states.size(), -1),
        new_state_(graph_.states.size(), -1) {
    for (size_t i = 0; i < graph_.order.size(); ++i) place_[at(graph_.order[i])] = static_cast<int32_t>(i);
  }

  Lattice run();

 private:
  static size_t at(int32_t state) { return static_cast<size_t>(state); }
  const Arc* arcs_begin(int32_t state) const { return graph_.arcs.data() + graph_.states[at(state)].first_arc; }
  const Arc* arcs_end(int32_t state) const { return arcs_begin(state) + graph_.states[at(state)].n_arcs; }

  void number_states();
  void gather(int32_t root);
  void add_state(int32_t root);
  void relax(int32_t state, const Weight& weight);
  void keep_best_arcs(size_t first);

  Lattice graph_;
  std::vector<bool> leads_to_final_;
  std::vector<int32_t> place_;    // of a state in graph_.order
  std::vector<Weight> best_;      // from the root to a state, over epsilons
  std::vector<int32_t> seen_by_;  // the last root that reached a state
  std::vector<bool> has_best_;
  std::vector<int32_t> new_state_;  // -1: only epsilons lead there
  std::vector<int32_t> closure_;    // what the root reaches over epsilons
  Lattice out_;
};

Lattice Removal::run() {
  out_.origin = std::move(graph_.origin);
  if (graph_.start < 0 || !leads_to_final_[at(graph_.start)]) return std::move(out_);
  number_states();
  has_best_.resize(graph_.states.size());
  out_.arcs.reserve(graph_.arcs.size());
  for (int32_t state : graph_.order)
    if (new_state_[at(state)] >= 0) {
      gather(state);
      add_state(state);
    }
  out_.start = 0;
  out_.order.resize(out_.states.size());
  for (size_t i = 0; i < out_.order.size(); ++i) out_.order[i] = static_cast<int32_t>(i);
  out_.tids = std::move(graph_.tids);
  return std::move(out_);
}

// The states that stay: the start, and those that arcs with words lead to.
void Removal::number_states() {
  std::vector<bool> stays(graph_.states.size());
  stays[at(graph_.start)] = true;
  for (const Arc& arc : graph_.arcs)
    if (arc.word != 0 && leads_to_final_[at(arc.next)]) stays[at(arc.next)] = true;
  int32_t n = 0;
  for (int32_t state : graph_.order)
    if (stays[at(state)]) new_state_[at(state)] = n++;
  out_.states.reserve(static_cast<size_t>(n));
}

// Fills closure_, in topological order.
void Removal::gather(int32_t root) {
  closure_.assign(1, root);
  seen_by_[at(root)] = root;
  for (size_t i = 0; i < closure_.size(); ++i)
    for (const Arc *arc = arcs_begin(closure_[i]), *end = arcs_end(closure_[i]); arc < end; ++arc)
      if (arc->word == 0 && leads_to_final_[at(arc->next)] && seen_by_[at(arc->next)] != root) {
        seen_by_[at(arc->next)] = root;
        has_best_[at(arc->next)] = false;
        closure_.push_back(arc->next);
      }
  if (closure_.size() > 2)
    std::sort(closure_.begin() + 1, closure_.end(),
              [this](int32_t a, int32_t b) { return place_[at(a)] < place_[at(b)]; });
}

void Removal::add_state(int32_t root) {
  State made;
  made.first_arc = out_.arcs.size();
  best_[at(root)] = {};
  for (int32_t state : closure_) {
    const Weight to_here = best_[at(state)];
    for (const Arc *arc = arcs_begin(state), *end = arcs_end(state); arc < end; ++arc) {
      if (!leads_to_final_[at(arc->next)]) continue;
      const Weight weight = times(to_here, arc->weight, &graph_.tids);
      if (arc->word == 0)
        relax(arc->next, weight);
      else
        out_.arcs.push_back({arc->word, new_state_[at(arc->next)], weight});
    }
    if (!graph_.states[at(state)].is_final) continue;
    const Weight weight = times(to_here, graph_.states[at(state)].final_weight, &graph_.tids);
    if (!made.is_final || is_better(weight, made.final_weight, graph_.tids)) made.final_weight = weight;
    made.is_final = true;
  }
  keep_best_arcs(made.first_arc);
  made.n_arcs = static_cast<uint32_t>(out_.arcs.size() - made.first_arc);
  out_.states.push_back(made);
  if (out_.arcs.size() > kMostArcs)
    throw LatticeError("expected an aligned lattice of at most " + std::to_string(kMostArcs) +
                           " arcs, got more; is the lattice of this model, and determinized? prune it",
                       0);
}

void Removal::relax(int32_t state, const Weight& weight) {
  if (has_best_[at(state)] && !is_better(weight, best_[at(state)], graph_.tids)) return;
  best_[at(state)] = weight;
  has_best_[at(state)] = true;
}

void Removal::keep_best_arcs(size_t first) {
  const auto begin = out_.arcs.begin() + static_cast<ptrdiff_t>(first);
  if (out_.arcs.end() - begin < 2) return;
  std::sort(begin, out_.arcs.end(), [this](const Arc& a, const Arc& b) {
    if (a.next != b.next || a.word != b.word) return std::tie(a.next, a.word) < std::tie(b.next, b.word);
    return is_better(a.weight, b.weight, graph_.tids);
  });
  const auto same = [](const Arc& a, const Arc& b) { return a.next == b.next && a.word == b.word; };
  out_.arcs.erase(std::unique(begin, out_.arcs.end(), same), out_.arcs.end());
}

}  // namespace

Lattice remove_epsilons(Lattice graph) { return Removal(std::move(graph)).run(); }

std::vector<bool> leads_to_final(const Lattice& graph) {
  std::vector<bool> leads(graph.states.size());
  for (auto s = graph.order.rbegin(); s != graph.order.rend(); ++s) {
    const State& state = graph.states[static_cast<size_t>(*s)];
    bool is_good = state.is_final;
    for (uint64_t a = state.first_arc; !is_good && a < state.first_arc + state.n_arcs; ++a)
      is_good = leads[static_cast<size_t>(graph.arcs[a].next)];
    leads[static_cast<size_t>(*s)] = is_good;
  }
  return leads;
}

bool is_better(const Weight& a, const Weight& b, const std::vector<int32_t>& tids) {
  const double total_a = a.graph + a.acoustic, total_b = b.graph + b.acoustic;
  if (total_a != total_b) return total_a < total_b;
  if (a.graph != b.graph) return a.graph < b.graph;
  if (a.n_tids != b.n_tids) return a.n_tids < b.n_tids;
  const auto begin = [&](const Weight& w) { return tids.begin() + static_cast<ptrdiff_t>(w.first_tid); };
  return std::lexicographical_compare(begin(b), begin(b) + b.n_tids, begin(a), begin(a) + a.n_tids);
}

}  // namespace kaldi_punct
