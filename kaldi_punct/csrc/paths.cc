#include "paths.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace kaldi_punct {
namespace {

constexpr int64_t kStop = -1;     // the path ends here, in a final state
constexpr int64_t kDeadEnd = -2;  // no path to the end

// For each state, the best way on to the end: an arc, or kStop.
class BestTree {
 public:
  BestTree(const Lattice& lattice, const Scales& scales)
      : lattice_(lattice), scales_(scales), ways_(lattice.states.size()) {
    for (auto s = lattice.order.rbegin(); s != lattice.order.rend(); ++s) {
      const State& state = lattice.states[*s];
      Way& best = ways_[*s];
      if (state.is_final) best = way(*s, kStop);
      for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) {
        const Way other = way(*s, static_cast<int64_t>(a));
        if (other < best) best = other;
      }
    }
  }

  int64_t choice(int32_t state) const { return ways_[state].choice; }

  // What the path gets dearer by if it leaves `state` by `choice` and then keeps to the tree.
  double detour(int32_t state, int64_t choice) const { return way(state, choice).cost - ways_[state].cost; }

 private:
  struct Way {
    double cost = HUGE_VAL;
    double graph = HUGE_VAL;  // decides between equal costs
    int64_t choice = kDeadEnd;

    bool operator<(const Way& other) const { return cost != other.cost ? cost < other.cost : graph < other.graph; }
  };

  Way way(int32_t state, int64_t choice) const {
    if (choice == kStop) {
      const Weight& weight = lattice_.states[state].final_weight;
      return {scaled_cost(weight, false, scales_), weight.graph, kStop};
    }
    const Arc& arc = lattice_.arcs[choice];
    const Way& rest = ways_[arc.next];
    if (rest.choice == kDeadEnd) return Way();
    return {scaled_cost(arc.weight, arc.word != 0, scales_) + rest.cost, arc.weight.graph + rest.graph, choice};
  }

  const Lattice& lattice_;
  const Scales& scales_;
  std::vector<Way> ways_;
};

// A path: that of its parent up to `state`, there another choice, then the tree.
struct Detour {
  double extra = 0;  // over the best path
  size_t parent = 0;
  int32_t state = 0;
  int64_t choice = 0;
  size_t serial = 0;  // a total order, so that equal costs come out the same each time

  bool operator<(const Detour& other) const {
    return extra != other.extra ? extra < other.extra : serial < other.serial;
  }
};

class PathFinder {
 public:
  PathFinder(const Lattice& lattice, const Scales& scales)
      : lattice_(lattice), scales_(scales), tree_(lattice, scales) {}

  // Every path differs from a better one by one detour from the tree of best ways, so the detours of the paths found so
  // far, cheapest first, give the next path. Never more of them are kept than paths are still wanted.
  std::vector<Path> find(size_t n) {
    std::vector<Path> paths;
    if (n == 0 || lattice_.start < 0 || tree_.choice(lattice_.start) == kDeadEnd) return paths;
    paths.push_back(walk({}));
    found_.push_back(Detour());
    if (n > 1) add_detours(0, 0.0, lattice_.start, n - 1);
    while (paths.size() < n && !open_.empty()) {
      const Detour detour = *open_.begin();
      open_.erase(open_.begin());
      found_.push_back(detour);
      paths.push_back(walk(detours_of(found_.size() - 1)));
      const size_t n_wanted = n - paths.size();
      while (open_.size() > n_wanted) open_.erase(std::prev(open_.end()));
      if (detour.choice != kStop && n_wanted > 0)
        add_detours(found_.size() - 1, detour.extra, lattice_.arcs[detour.choice].next, n_wanted);
    }
    return paths;
  }

 private:
  void add_detours(size_t parent, double extra, int32_t state, size_t n_wanted) {
    while (true) {
      const State& here = lattice_.states[state];
      const int64_t best = tree_.choice(state);
      if (here.is_final && best != kStop) offer({extra, parent, state, kStop, 0}, n_wanted);
      for (uint64_t a = here.first_arc; a < here.first_arc + here.n_arcs; ++a)
        if (static_cast<int64_t>(a) != best) offer({extra, parent, state, static_cast<int64_t>(a), 0}, n_wanted);
      if (best == kStop) return;
      state = lattice_.arcs[best].next;
    }
  }

  void offer(Detour detour, size_t n_wanted) {
    detour.extra += tree_.detour(detour.state, detour.choice);
    if (!std::isfinite(detour.extra)) return;  // a dead end
    detour.serial = n_offered_++;
    if (open_.size() >= n_wanted) {
      const auto worst = std::prev(open_.end());
      if (!(detour < *worst)) return;
      open_.erase(worst);
    }
    open_.insert(detour);
  }

  // The detours of a path found, in the order in which they are taken.
  std::vector<const Detour*> detours_of(size_t path) const {
    std::vector<const Detour*> detours;
    for (; path != 0; path = found_[path].parent) detours.push_back(&found_[path]);
    std::reverse(detours.begin(), detours.end());
    return detours;
  }

  Path walk(const std::vector<const Detour*>& detours) const {
    Path path;
    size_t next_detour = 0;
    for (int32_t state = lattice_.start;;) {
      int64_t choice = tree_.choice(state);
      if (next_detour < detours.size() && detours[next_detour]->state == state) choice = detours[next_detour++]->choice;
      if (choice == kStop) {
        add(lattice_.states[state].final_weight, 0, &path);
        return path;
      }
      const Arc& arc = lattice_.arcs[choice];
      path.arcs.push_back(static_cast<uint64_t>(choice));
      add(arc.weight, arc.word, &path);
      state = arc.next;
    }
  }

  void add(const Weight& weight, int32_t word, Path* path) const {
    if (word != 0) path->words.push_back(word);
    const auto tids = lattice_.tids.begin() + static_cast<int64_t>(weight.first_tid);
    path->tids.insert(path->tids.end(), tids, tids + weight.n_tids);
    path->graph_cost += weight.graph + (word != 0 ? scales_.word_ins_penalty : 0);
    path->acoustic_cost += weight.acoustic;
    path->total_cost += scaled_cost(weight, word != 0, scales_);
  }

  const Lattice& lattice_;
  const Scales& scales_;
  BestTree tree_;
  std::vector<Detour> found_;  // one a path; the first, of the best path, says nothing
  std::set<Detour> open_;
  size_t n_offered_ = 0;
};

}  // namespace

std::vector<Path> best_paths(const Lattice& lattice, size_t n, const Scales& scales) {
  return PathFinder(lattice, scales).find(n);
}

double log_add(double a, double b) {
  if (a > b) std::swap(a, b);
  return std::isinf(b) ? a : a - std::log1p(std::exp(a - b));
}

double total_cost_of_all(const Lattice& lattice, const Scales& scales) {
  if (lattice.start < 0) return HUGE_VAL;
  std::vector<double> forward(lattice.states.size(), HUGE_VAL);
  forward[lattice.start] = 0;
  double total = HUGE_VAL;
  for (int32_t s : lattice.order) {
    if (std::isinf(forward[s])) continue;
    const State& state = lattice.states[s];
    if (state.is_final) total = log_add(total, forward[s] + scaled_cost(state.final_weight, false, scales));
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) {
      const Arc& arc = lattice.arcs[a];
      forward[arc.next] = log_add(forward[arc.next], forward[s] + scaled_cost(arc.weight, arc.word != 0, scales));
    }
  }
  return total;
}

}  // namespace kaldi_punct
