#include "posteriors.h"

#include <algorithm>
#include <cmath>

#include "errors.h"

namespace kaldi_punct {
namespace {

constexpr int64_t kMostFrames = int64_t{1} << 28;  // a month of speech

// For each state, the negated logarithm of the sum over all ways to it from the start, or from it to the end.
std::vector<double> forward_costs(const Lattice& lattice, const Scales& scales) {
  std::vector<double> cost(lattice.states.size(), HUGE_VAL);
  cost[lattice.start] = 0;
  for (int32_t s : lattice.order) {
    if (std::isinf(cost[s])) continue;
    const State& state = lattice.states[s];
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) {
      const Arc& arc = lattice.arcs[a];
      cost[arc.next] = log_add(cost[arc.next], cost[s] + scaled_cost(arc.weight, arc.word != 0, scales));
    }
  }
  return cost;
}

std::vector<double> backward_costs(const Lattice& lattice, const Scales& scales) {
  std::vector<double> cost(lattice.states.size(), HUGE_VAL);
  for (auto s = lattice.order.rbegin(); s != lattice.order.rend(); ++s) {
    const State& state = lattice.states[*s];
    if (state.is_final) cost[*s] = scaled_cost(state.final_weight, false, scales);
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) {
      const Arc& arc = lattice.arcs[a];
      cost[*s] = log_add(cost[*s], cost[arc.next] + scaled_cost(arc.weight, arc.word != 0, scales));
    }
  }
  return cost;
}

}  // namespace

std::vector<int64_t> state_times(const Lattice& lattice) {
  std::vector<int64_t> times(lattice.states.size(), -1);
  if (lattice.start >= 0) times[lattice.start] = 0;
  for (int32_t s : lattice.order) {
    if (times[s] < 0) continue;
    const State& state = lattice.states[s];
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) {
      const Arc& arc = lattice.arcs[a];
      times[arc.next] = std::max<int64_t>(times[arc.next], times[s] + arc.weight.n_tids);
    }
  }
  return times;
}

std::vector<ArcPosterior> arc_posteriors(const Lattice& lattice, const Scales& scales, double min_post) {
  std::vector<ArcPosterior> out;
  if (lattice.start < 0) return out;
  const std::vector<double> forward = forward_costs(lattice, scales), backward = backward_costs(lattice, scales);
  const std::vector<int64_t> times = state_times(lattice);
  const double total = backward[lattice.start];
  if (std::isinf(total)) return out;
  for (int32_t s : lattice.order) {
    const State& state = lattice.states[s];
    if (times[s] < 0) continue;
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) {
      const Arc& arc = lattice.arcs[a];
      const double cost = forward[s] + scaled_cost(arc.weight, arc.word != 0, scales) + backward[arc.next] - total;
      const double posterior = std::exp(-std::max(cost, 0.0));
      if (!(posterior > min_post)) continue;
      const auto tids = lattice.tids.begin() + static_cast<int64_t>(arc.weight.first_tid);
      out.push_back({static_cast<int32_t>(times[s]), arc.word, {tids, tids + arc.weight.n_tids}, posterior});
    }
  }
  return out;
}

std::vector<int32_t> depth_per_frame(const Lattice& lattice) {
  const int64_t n_frames = lattice.n_frames();
  if (n_frames > kMostFrames)
    throw LatticeError(lattice.origin + ": expected at most 2^28 frames, got " + std::to_string(n_frames), 0);
  const std::vector<int64_t> times = state_times(lattice);
  std::vector<int32_t> change(static_cast<size_t>(n_frames) + 1, 0);
  const auto count = [&](int64_t begin, uint32_t n) {
    if (n == 0 || begin >= n_frames) return;  // a way that ends nowhere may be longer than all that end
    ++change[begin];
    --change[std::min<int64_t>(begin + n, n_frames)];
  };
  for (size_t s = 0; s < lattice.states.size(); ++s) {
    const State& state = lattice.states[s];
    if (times[s] < 0) continue;
    if (state.is_final) count(times[s], state.final_weight.n_tids);
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a)
      count(times[s], lattice.arcs[a].weight.n_tids);
  }
  change.pop_back();
  for (size_t t = 1; t < change.size(); ++t) change[t] += change[t - 1];
  return change;
}

double depth(const Lattice& lattice) {
  const int64_t n_frames = lattice.n_frames();
  if (n_frames == 0) return 1;
  const std::vector<int64_t> times = state_times(lattice);
  int64_t total = 0;
  for (size_t s = 0; s < lattice.states.size(); ++s) {
    const State& state = lattice.states[s];
    if (times[s] < 0) continue;
    if (state.is_final) total += state.final_weight.n_tids;
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) total += lattice.arcs[a].weight.n_tids;
  }
  return static_cast<double>(total) / static_cast<double>(n_frames);
}

}  // namespace kaldi_punct
