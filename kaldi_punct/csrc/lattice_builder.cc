#include "lattice_builder.h"

#include <cmath>
#include <utility>

#include "errors.h"

namespace kaldi_punct {

void LatticeBuilder::note(const std::string& text, uint64_t offset) {
  if (bad_) return;
  bad_ = true;
  problem_ = text;
  problem_offset_ = offset;
}

bool LatticeBuilder::check_costs(double graph, double acoustic, uint64_t offset) {
  if (std::isfinite(graph) && std::isfinite(acoustic)) return true;
  const double inf = HUGE_VAL;
  if (!(graph == inf && acoustic == inf))
    note("expected finite costs, got " + std::to_string(graph) + "," + std::to_string(acoustic) +
             "; decode this utterance again",
         offset);
  return false;
}

void LatticeBuilder::check_arc(int64_t word, int64_t next, uint64_t offset) {
  const int64_t most = INT32_MAX;
  if (word < 0 || word > most) note("expected a word-id of 0 or more, got " + std::to_string(word), offset);
  if (next < 0 || next > most) note("expected a state number of 0 or more, got " + std::to_string(next), offset);
}

Lattice LatticeBuilder::finish(uint64_t offset) {
  const int64_t n_states = static_cast<int64_t>(lattice.states.size());
  if (!bad_) {
    if (lattice.start >= n_states || (lattice.start < 0 && n_states > 0))
      note("expected a start state below " + std::to_string(n_states) + ", got " + std::to_string(lattice.start),
           offset);
    for (const Arc& arc : lattice.arcs)
      if (arc.next >= n_states)
        note("expected states below " + std::to_string(n_states) + ", got an arc to state " + std::to_string(arc.next),
             offset);
  }
  if (!bad_) {
    const int32_t on_cycle = lattice.sort_states();
    if (on_cycle >= 0)
      note("expected a lattice without cycles, got one through state " + std::to_string(on_cycle), offset);
  }
  if (bad_) throw LatticeError(problem_, problem_offset_, true);
  return std::move(lattice);
}

}  // namespace kaldi_punct
