#include "fst_binary.h"

#include <algorithm>
#include <string>

#include "lattice_builder.h"
#include "text.h"

namespace kaldi_punct {
namespace {

constexpr int32_t kMagic = 0x7eb2fdd6;
constexpr int32_t kMaxTypeLength = 64;  // the longest that we know has 16 letters
constexpr int32_t kHasSymbols = 3;      // flags: input or output symbol table follows the header

struct ArcType {
  bool is_compact = true;
  bool is_double = false;
};

std::string take_type(ByteCursor& in, const char* what) {
  const uint64_t offset = in.offset();
  const int32_t length = in.take<int32_t>();
  if (length < 0 || length > kMaxTypeLength)
    throw LatticeError(std::string("expected the length of the ") + what + ", got " + std::to_string(length), offset);
  in.need(static_cast<size_t>(length));
  std::string type(in.at(), static_cast<size_t>(length));
  in.skip(static_cast<size_t>(length));
  return type;
}

ArcType take_arc_type(ByteCursor& in) {
  const uint64_t offset = in.offset();
  const std::string type = take_type(in, "arc type");
  if (type == "compactlattice44") return {true, false};
  if (type == "compactlattice84") return {true, true};
  if (type == "lattice4") return {false, false};
  if (type == "lattice8") return {false, true};
  throw LatticeError("expected arc type compactlattice44 or lattice4, got '" + printable(type, kMaxTypeLength) +
                         "'; this is no lattice (a decoding graph or another FST?)",
                     offset);
}

class BinaryReader {
 public:
  explicit BinaryReader(ByteCursor& in) : in_(in) {}

  Lattice read() {
    const uint64_t offset = in_.offset();
    take_header();
    Lattice& lattice = builder_.lattice;
    lattice.is_state_level = !type_.is_compact;
    for (int64_t s = 0; s < n_states_; ++s) take_state();
    if (lattice.start >= 0 && n_states_ == 0) lattice.start = -1;
    return builder_.finish(offset);
  }

 private:
  void take_header() {
    const uint64_t offset = in_.offset();
    if (in_.take<int32_t>() != kMagic)
      throw LatticeError("expected a lattice (OpenFst's magic number), got other bytes", offset);
    const std::string fst_type = take_type(in_, "fst type");
    if (fst_type != "vector")
      throw LatticeError(
          "expected fst type vector, got '" + printable(fst_type, kMaxTypeLength) + "'; write it with lattice-copy",
          offset);
    type_ = take_arc_type(in_);
    in_.take<int32_t>();  // version
    const int32_t flags = in_.take<int32_t>();
    if (flags & kHasSymbols)
      throw LatticeError("expected a lattice without symbol tables, got flags " + std::to_string(flags), offset);
    in_.take<uint64_t>();  // properties
    const int64_t start = in_.take<int64_t>();
    n_states_ = in_.take<int64_t>();
    in_.take<int64_t>();  // number of arcs; often 0, so nobody may rely on it
    if (n_states_ < 0 || n_states_ > INT32_MAX)
      throw LatticeError("expected a number of states, got " + std::to_string(n_states_), offset);
    if (start < -1 || start > INT32_MAX)
      throw LatticeError("expected a start state, got " + std::to_string(start), offset);
    builder_.lattice.start = static_cast<int32_t>(start);
  }

  void take_state() {
    Lattice& lattice = builder_.lattice;
    State state;
    state.is_final = take_weight(&state.final_weight);
    state.first_arc = lattice.arcs.size();
    const uint64_t offset = in_.offset();
    const int64_t n_arcs = in_.take<int64_t>();
    if (n_arcs < 0 || n_arcs > INT32_MAX)
      throw LatticeError("expected a number of arcs, got " + std::to_string(n_arcs), offset);
    for (int64_t a = 0; a < n_arcs; ++a) take_arc();
    state.n_arcs = static_cast<uint32_t>(lattice.arcs.size() - state.first_arc);
    lattice.states.push_back(state);
  }

  void take_arc() {
    const uint64_t offset = in_.offset();
    Lattice& lattice = builder_.lattice;
    const int32_t ilabel = in_.take<int32_t>();
    const int32_t olabel = in_.take<int32_t>();
    Arc arc;
    const bool is_real = take_weight(&arc.weight);
    arc.next = in_.take<int32_t>();
    arc.word = olabel;
    builder_.check_arc(arc.word, arc.next, offset);
    if (type_.is_compact && ilabel != olabel)
      builder_.note("expected equal labels on an arc of a compact lattice, got " + std::to_string(ilabel) + " and " +
                        std::to_string(olabel),
                    offset);
    if (!type_.is_compact && ilabel != 0) {
      if (ilabel < 0) builder_.note("expected a transition-id, got " + std::to_string(ilabel), offset);
      arc.weight.first_tid = lattice.tids.size();
      arc.weight.n_tids = 1;
      lattice.tids.push_back(ilabel);
    }
    if (is_real) lattice.arcs.push_back(arc);
  }

  // False for the weight "zero": no such arc, or not a final state.
  bool take_weight(Weight* weight) {
    const uint64_t offset = in_.offset();
    weight->graph = type_.is_double ? in_.take<double>() : in_.take<float>();
    weight->acoustic = type_.is_double ? in_.take<double>() : in_.take<float>();
    if (type_.is_compact) take_tids(weight);
    return builder_.check_costs(weight->graph, weight->acoustic, offset);
  }

  void take_tids(Weight* weight) {
    const uint64_t offset = in_.offset();
    const int32_t n = in_.take<int32_t>();
    if (n < 0) throw LatticeError("expected a number of transition-ids, got " + std::to_string(n), offset);
    std::vector<int32_t>& tids = builder_.lattice.tids;
    const size_t bytes = static_cast<size_t>(n) * sizeof(int32_t);
    weight->first_tid = tids.size();
    weight->n_tids = static_cast<uint32_t>(n);
    // What is there is looked at even if the rest is missing: a wrong count is found before the whole archive is read.
    const size_t n_here = std::min(bytes, in_.left()) / sizeof(int32_t);
    tids.resize(tids.size() + n_here);
    if (n_here > 0) std::memcpy(tids.data() + weight->first_tid, in_.at(), n_here * sizeof(int32_t));
    for (size_t i = weight->first_tid; i < tids.size(); ++i)
      if (tids[i] <= 0) throw LatticeError("expected a transition-id, got " + std::to_string(tids[i]), offset);
    in_.skip(bytes);
  }

  ByteCursor& in_;
  ArcType type_;
  int64_t n_states_ = 0;
  LatticeBuilder builder_;
};

}  // namespace

Lattice read_binary(ByteCursor& in) { return BinaryReader(in).read(); }

}  // namespace kaldi_punct
