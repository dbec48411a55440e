#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "errors.h"

namespace kaldi_punct {
namespace {

constexpr uint64_t kMostCells = uint64_t{1} << 27;  // 2 GiB of them

// What is still to come: errors first, then cost.
struct Rest {
  int32_t n_errors = INT32_MAX;
  double cost = HUGE_VAL;

  bool operator<(const Rest& other) const {
    return n_errors != other.n_errors ? n_errors < other.n_errors : cost < other.cost;
  }
  bool is_end() const { return n_errors != INT32_MAX; }
};

enum class Step { kStop, kDelete, kSkip, kInsert, kPair };

struct Move {
  Rest rest;
  Step step = Step::kStop;
  const Arc* arc = nullptr;
};

class Oracle {
 public:
  Oracle(const Lattice& lattice, std::vector<int32_t> reference, const std::vector<int32_t>& wildcards,
         const Scales& scales)
      : lattice_(lattice), reference_(std::move(reference)), scales_(scales), wildcards_(wildcards) {
    std::sort(wildcards_.begin(), wildcards_.end());
    reference_.erase(std::remove_if(reference_.begin(), reference_.end(), [this](int32_t w) { return is_no_word(w); }),
                     reference_.end());
    n_places_ = reference_.size() + 1;
    if (lattice.states.size() > kMostCells / n_places_)
      throw LatticeError(lattice.origin + ": expected at most " + std::to_string(kMostCells) +
                             " pairs of a state and a reference word, got " + std::to_string(lattice.states.size()) +
                             " states and " + std::to_string(reference_.size()) + " words; prune the lattice",
                         0);
    rests_.resize(lattice.states.size() * n_places_);
  }

  std::optional<OraclePath> find() {
    if (lattice_.start < 0) return std::nullopt;
    for (auto s = lattice_.order.rbegin(); s != lattice_.order.rend(); ++s)
      for (size_t place = n_places_; place-- > 0;) rest(*s, place) = best_move(*s, place).rest;
    if (!rest(lattice_.start, 0).is_end()) return std::nullopt;
    return walk();
  }

 private:
  bool is_no_word(int32_t word) const {
    return word == 0 || std::binary_search(wildcards_.begin(), wildcards_.end(), word);
  }

  Rest& rest(int32_t state, size_t place) { return rests_[static_cast<size_t>(state) * n_places_ + place]; }

  // What to do in a state with the reference read up to `place`.
  Move best_move(int32_t s, size_t place) {
    Move best;
    const State& state = lattice_.states[s];
    const bool has_word = place < reference_.size();
    if (state.is_final && !has_word) best.rest = {0, scaled_cost(state.final_weight, false, scales_)};
    if (has_word) offer(Step::kDelete, nullptr, 1, 0, rest(s, place + 1), &best);
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) {
      const Arc& arc = lattice_.arcs[a];
      const double cost = scaled_cost(arc.weight, arc.word != 0, scales_);
      if (is_no_word(arc.word)) {
        offer(Step::kSkip, &arc, 0, cost, rest(arc.next, place), &best);
        continue;
      }
      if (has_word) offer(Step::kPair, &arc, arc.word != reference_[place], cost, rest(arc.next, place + 1), &best);
      offer(Step::kInsert, &arc, 1, cost, rest(arc.next, place), &best);
    }
    return best;
  }

  static void offer(Step step, const Arc* arc, int32_t n_errors, double cost, const Rest& after, Move* best) {
    if (!after.is_end()) return;
    const Rest rest = {after.n_errors + n_errors, after.cost + cost};
    if (rest < best->rest) *best = {rest, step, arc};
  }

  OraclePath walk() {
    OraclePath path;
    size_t place = 0;
    for (int32_t s = lattice_.start;;) {
      const Move move = best_move(s, place);
      if (move.step == Step::kStop) return path;
      if (move.step == Step::kDelete) ++path.n_deletions;
      if (move.step == Step::kInsert) ++path.n_insertions;
      if (move.step == Step::kPair) ++(move.arc->word == reference_[place] ? path.n_correct : path.n_substitutions);
      if (move.step == Step::kInsert || move.step == Step::kPair) path.words.push_back(move.arc->word);
      if (move.step == Step::kDelete || move.step == Step::kPair) ++place;
      if (move.arc != nullptr) s = move.arc->next;
    }
  }

  const Lattice& lattice_;
  std::vector<int32_t> reference_;
  const Scales& scales_;
  std::vector<int32_t> wildcards_;
  size_t n_places_ = 0;
  std::vector<Rest> rests_;
};

}  // namespace

std::optional<OraclePath> oracle_path(const Lattice& lattice, const std::vector<int32_t>& reference,
                                      const std::vector<int32_t>& wildcards, const Scales& scales) {
  return Oracle(lattice, reference, wildcards, scales).find();
}

}  // namespace kaldi_punct
