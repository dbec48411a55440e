#include "epsilons.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "errors.h"

namespace kaldi_punct {
namespace {

constexpr size_t kMostArcs = 10'000'000;  // 400 MB
constexpr double kDelta = 1e-6;

// As Kaldi adds costs: 32-bit floats. Whoever sums over the lattice later meets the same last digits.
// Added as floats: GCC 12 at -O2 leaves the rounding out of two double sums side by side that go by float to double.
double add(double a, double b) { return static_cast<float>(a) + static_cast<float>(b); }

double total(const Weight& weight) { return add(weight.graph, weight.acoustic); }

// a followed by b.
Weight times(const Weight& a, const Weight& b, std::vector<int32_t>* tids) {
  Weight both{add(a.graph, b.graph), add(a.acoustic, b.acoustic), a.first_tid, a.n_tids + b.n_tids};
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

// Arcs come in the order in which OpenFst leaves them, and states as its TopSort numbers them: algorithms that add up
// floats, such as minimum Bayes risk decoding, decide ties by the order in which they meet the arcs.
class Removal {
 public:
  explicit Removal(Lattice graph)
      : graph_(std::move(graph)),
        leads_to_final_(leads_to_final(graph_)),
        stays_(graph_.states.size()),
        place_(graph_.states.size()),
        best_(graph_.states.size()),
        seen_by_(graph_.states.size(), -1),
        visited_by_(graph_.states.size(), -1),
        has_best_(graph_.states.size()),
        expanded_(graph_.states.size()) {
    for (size_t i = 0; i < graph_.order.size(); ++i) place_[at(graph_.order[i])] = static_cast<int32_t>(i);
  }

  Lattice run();

 private:
  static size_t at(int32_t state) { return static_cast<size_t>(state); }

  // Of a state that was expanded already, what it has become; else what it was.
  const State& state(int32_t s) const { return is_expanded(s) ? expanded_[at(s)] : graph_.states[at(s)]; }
  const Arc* arcs_begin(int32_t s) const { return (is_expanded(s) ? arcs_ : graph_.arcs).data() + state(s).first_arc; }
  bool is_expanded(int32_t s) const { return stays_[at(s)] && place_[at(s)] > expanding_; }

  void mark_staying();
  void gather(int32_t root);
  void weigh_closure(int32_t root);
  void expand(int32_t root);
  void take_arc(const Arc& arc, const Weight& to_here, size_t first);
  size_t find_arc(const Arc& arc, size_t first);
  void relax(int32_t state, const Weight& weight);
  std::vector<int32_t> numbers() const;
  Lattice renumbered(const std::vector<int32_t>& numbers) const;

  Lattice graph_;
  std::vector<bool> leads_to_final_;
  std::vector<bool> stays_;          // the start, and states that arcs with words lead to
  std::vector<int32_t> place_;       // of a state in graph_.order
  std::vector<Weight> best_;         // from the root to a state, over epsilons
  std::vector<int32_t> seen_by_;     // the last root that reached a state
  std::vector<int32_t> visited_by_;  // the last root that took a state's arcs
  std::vector<bool> has_best_;
  std::vector<int32_t> closure_;  // what the root reaches over epsilons
  std::vector<int32_t> stack_;
  std::vector<State> expanded_;  // by old number, with arcs in arcs_, which lead to old numbers
  std::vector<Arc> arcs_;
  int32_t expanding_ = 0;  // place of the state that is being expanded; those behind it are done
  std::unordered_map<uint64_t, size_t> places_of_arcs_;  // of the root's arcs by word and next state, if they are many
};

Lattice Removal::run() {
  Lattice out;
  out.origin = std::move(graph_.origin);
  if (graph_.start < 0 || !leads_to_final_[at(graph_.start)]) return out;
  mark_staying();
  arcs_.reserve(graph_.arcs.size());
  for (auto s = graph_.order.rbegin(); s != graph_.order.rend(); ++s)
    if (stays_[at(*s)] && leads_to_final_[at(*s)]) expand(*s);
  expanding_ = -1;
  Lattice made = renumbered(numbers());
  made.origin = std::move(out.origin);
  made.tids = std::move(graph_.tids);
  return made;
}

void Removal::mark_staying() {
  stays_[at(graph_.start)] = true;
  for (const Arc& arc : graph_.arcs)
    if (arc.word != 0 && leads_to_final_[at(arc.next)]) stays_[at(arc.next)] = true;
}

// Fills closure_, in topological order.
void Removal::gather(int32_t root) {
  closure_.assign(1, root);
  seen_by_[at(root)] = root;
  for (size_t i = 0; i < closure_.size(); ++i) {
    const Arc* arc = arcs_begin(closure_[i]);
    for (const Arc* end = arc + state(closure_[i]).n_arcs; arc < end; ++arc)
      if (arc->word == 0 && leads_to_final_[at(arc->next)] && seen_by_[at(arc->next)] != root) {
        seen_by_[at(arc->next)] = root;
        has_best_[at(arc->next)] = false;
        closure_.push_back(arc->next);
      }
  }
  if (closure_.size() > 2)
    std::sort(closure_.begin() + 1, closure_.end(),
              [this](int32_t a, int32_t b) { return place_[at(a)] < place_[at(b)]; });
}

void Removal::weigh_closure(int32_t root) {
  best_[at(root)] = {};
  for (int32_t s : closure_) {
    const Weight to_here = best_[at(s)];
    const size_t n = state(s).n_arcs;
    for (size_t i = 0; i < n; ++i) {
      const Arc& arc = arcs_begin(s)[i];
      if (arc.word == 0 && leads_to_final_[at(arc.next)]) relax(arc.next, times(to_here, arc.weight, &graph_.tids));
    }
  }
}

// Gives a state the arcs with words that it reaches over epsilons. They are met depth first, the last epsilon of a
// state first, and laid down in reverse.
void Removal::expand(int32_t root) {
  expanding_ = place_[at(root)];
  gather(root);
  weigh_closure(root);
  State made;
  made.first_arc = arcs_.size();
  if (!places_of_arcs_.empty()) places_of_arcs_.clear();
  stack_.assign(1, root);
  while (!stack_.empty()) {
    const int32_t s = stack_.back();
    stack_.pop_back();
    if (visited_by_[at(s)] == root) continue;
    visited_by_[at(s)] = root;
    const Weight to_here = best_[at(s)];
    const size_t n = state(s).n_arcs;
    for (size_t i = 0; i < n; ++i) {
      const Arc arc = arcs_begin(s)[i];  // a copy: arcs_ grows
      if (!leads_to_final_[at(arc.next)]) continue;
      if (arc.word != 0)
        take_arc(arc, to_here, made.first_arc);
      else if (visited_by_[at(arc.next)] != root)
        stack_.push_back(arc.next);
    }
    if (!state(s).is_final) continue;
    const Weight weight = times(to_here, state(s).final_weight, &graph_.tids);
    if (!made.is_final || is_better(weight, made.final_weight, graph_.tids)) made.final_weight = weight;
    made.is_final = true;
  }
  std::reverse(arcs_.begin() + static_cast<ptrdiff_t>(made.first_arc), arcs_.end());
  made.n_arcs = static_cast<uint32_t>(arcs_.size() - made.first_arc);
  expanded_[at(root)] = made;
  if (arcs_.size() > kMostArcs)
    throw LatticeError("expected an aligned lattice of at most " + std::to_string(kMostArcs) +
                           " arcs, got more; is the lattice of this model, and determinized? prune it",
                       0);
}

// Of arcs with the same word to the same state the best stays, in the place of the first.
void Removal::take_arc(const Arc& arc, const Weight& to_here, size_t first) {
  const Weight weight = times(to_here, arc.weight, &graph_.tids);
  const size_t same = find_arc(arc, first);
  if (same == arcs_.size())
    arcs_.push_back({arc.word, arc.next, weight});
  else if (is_better(weight, arcs_[same].weight, graph_.tids))
    arcs_[same].weight = weight;
}

// The arc of the root with the same word and next state; arcs_.size() if there is none, which then is its place.
size_t Removal::find_arc(const Arc& arc, size_t first) {
  constexpr size_t kFew = 32;  // fewer are looked through faster than hashed
  const auto key = [](const Arc& a) {
    return static_cast<uint64_t>(static_cast<uint32_t>(a.word)) << 32 | static_cast<uint32_t>(a.next);
  };
  const size_t n = arcs_.size() - first;
  if (n < kFew) {
    const auto same = [&](const Arc& a) { return a.word == arc.word && a.next == arc.next; };
    const auto begin = arcs_.begin() + static_cast<ptrdiff_t>(first);
    return static_cast<size_t>(std::find_if(begin, arcs_.end(), same) - arcs_.begin());
  }
  if (n == kFew && places_of_arcs_.empty())
    for (size_t i = 0; i < n; ++i) places_of_arcs_.emplace(key(arcs_[first + i]), first + i);
  return places_of_arcs_.emplace(key(arc), arcs_.size()).first->second;
}

void Removal::relax(int32_t state, const Weight& weight) {
  Weight& best = best_[at(state)];
  // Weights as good as equal leave what was found first, as in OpenFst's ShortestDistance.
  if (has_best_[at(state)] &&
      (std::abs(total(weight) - total(best)) <= kDelta || !is_better(weight, best, graph_.tids)))
    return;
  best = weight;
  has_best_[at(state)] = true;
}

// New number of each state that can be reached, -1 of the others: depth first, a state before all that it leads to.
std::vector<int32_t> Removal::numbers() const {
  std::vector<int32_t> number(graph_.states.size(), -1);
  std::vector<int32_t> finished;
  std::vector<std::pair<int32_t, uint32_t>> path{{graph_.start, 0}};  // states, and which arc of each comes next
  number[at(graph_.start)] = 0;
  while (!path.empty()) {
    auto& [s, next_arc] = path.back();
    if (next_arc == expanded_[at(s)].n_arcs) {
      finished.push_back(s);
      path.pop_back();
      continue;
    }
    const int32_t next = arcs_[expanded_[at(s)].first_arc + next_arc++].next;
    if (number[at(next)] >= 0) continue;
    number[at(next)] = 0;
    path.push_back({next, 0});
  }
  for (size_t i = 0; i < finished.size(); ++i) number[at(finished[i])] = static_cast<int32_t>(finished.size() - 1 - i);
  return number;
}

Lattice Removal::renumbered(const std::vector<int32_t>& number) const {
  Lattice out;
  std::vector<int32_t> old;
  for (size_t s = 0; s < number.size(); ++s)
    if (number[s] >= 0) old.push_back(static_cast<int32_t>(s));
  std::sort(old.begin(), old.end(), [&](int32_t a, int32_t b) { return number[at(a)] < number[at(b)]; });
  out.start = 0;
  out.arcs.reserve(arcs_.size());
  out.states.reserve(old.size());
  for (int32_t s : old) {
    State made = expanded_[at(s)];
    const Arc* arc = arcs_.data() + made.first_arc;
    made.first_arc = out.arcs.size();
    for (const Arc* end = arc + made.n_arcs; arc < end; ++arc)
      out.arcs.push_back({arc->word, number[at(arc->next)], arc->weight});
    out.order.push_back(static_cast<int32_t>(out.states.size()));
    out.states.push_back(made);
  }
  return out;
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
  const double total_a = total(a), total_b = total(b);
  if (total_a != total_b) return total_a < total_b;
  if (a.graph != b.graph) return a.graph < b.graph;
  if (a.n_tids != b.n_tids) return a.n_tids < b.n_tids;
  const auto begin = [&](const Weight& w) { return tids.begin() + static_cast<ptrdiff_t>(w.first_tid); };
  return std::lexicographical_compare(begin(b), begin(b) + b.n_tids, begin(a), begin(a) + a.n_tids);
}

}  // namespace kaldi_punct
