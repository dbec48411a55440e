#include "lattice_writer.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "errors.h"
#include "lattice_forms.h"

namespace kaldi_punct {
namespace {

constexpr int32_t kMagic = 0x7eb2fdd6;
constexpr int32_t kVersion = 2;

// OpenFst's property bits (fst/properties.h): what a reader may take for granted.
enum Property : uint64_t {
  kExpanded = 1ULL << 0,
  kMutable = 1ULL << 1,
  kAcceptor = 1ULL << 16,
  kNotAcceptor = 1ULL << 17,
  kEpsilons = 1ULL << 22,
  kNoEpsilons = 1ULL << 23,
  kInputEpsilons = 1ULL << 24,
  kNoInputEpsilons = 1ULL << 25,
  kOutputEpsilons = 1ULL << 26,
  kNoOutputEpsilons = 1ULL << 27,
  kWeighted = 1ULL << 32,
  kUnweighted = 1ULL << 33,
};

template <class T>
void put(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void put_string(const std::string& s, std::string* out) {
  put(static_cast<int32_t>(s.size()), out);
  out->append(s);
}

// As written: a double may be 0 only as a float.
bool is_one(const Weight& weight) {
  return static_cast<float>(weight.graph) == 0 && static_cast<float>(weight.acoustic) == 0 && weight.n_tids == 0;
}

// As digits whatever the locale: printf's %g.
void put_cost(float cost, std::string* out) {
  char digits[32];
#if defined(__cpp_lib_to_chars)
  const auto end = std::to_chars(digits, digits + sizeof(digits), cost, std::chars_format::general, 6).ptr;
  out->append(digits, static_cast<size_t>(end - digits));
#else  // libstdc++ before 11
  std::snprintf(digits, sizeof(digits), "%g", static_cast<double>(cost));
  if (char* comma = std::strchr(digits, ',')) *comma = '.';
  out->append(digits);
#endif
}

class Writer {
 public:
  Writer(const Lattice& lattice, bool compact, std::string* out) : lattice_(lattice), compact_(compact), out_(out) {}

  void write_binary() {
    put(kMagic, out_);
    put_string("vector", out_);
    put_string(compact_ ? "compactlattice44" : "lattice4", out_);
    put(kVersion, out_);
    put(int32_t{0}, out_);  // flags: no symbol tables
    put(properties(), out_);
    put(static_cast<int64_t>(lattice_.start), out_);
    put(static_cast<int64_t>(lattice_.states.size()), out_);
    put(int64_t{0}, out_);  // arcs; OpenFst leaves this 0 and counts for itself
    for (const State& state : lattice_.states) {
      put_weight(state.is_final ? &state.final_weight : nullptr);
      put(static_cast<int64_t>(state.n_arcs), out_);
      for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) {
        const Arc& arc = lattice_.arcs[a];
        put(in_label(arc), out_);
        put(arc.word, out_);
        put_weight(&arc.weight);
        put(arc.next, out_);
      }
    }
  }

  // From the newline behind the key to the empty line; the start comes first, which is how a reader knows it.
  void write_text() {
    out_->push_back('\n');
    if (lattice_.start >= 0) put_state_lines(lattice_.start);
    for (int32_t s = 0; s < static_cast<int32_t>(lattice_.states.size()); ++s)
      if (s != lattice_.start) put_state_lines(s);
    out_->push_back('\n');
  }

 private:
  int32_t in_label(const Arc& arc) const {
    if (compact_) return arc.word;
    return arc.weight.n_tids > 0 ? lattice_.tids[arc.weight.first_tid] : 0;
  }

  uint64_t properties() const {
    bool acceptor = true, eps = false, in_eps = false, out_eps = false, weighted = false;
    for (const Arc& arc : lattice_.arcs) {
      const int32_t in = in_label(arc);
      acceptor = acceptor && in == arc.word;
      in_eps = in_eps || in == 0;
      out_eps = out_eps || arc.word == 0;
      eps = eps || (in == 0 && arc.word == 0);
      weighted = weighted || !is_one(arc.weight);
    }
    for (const State& state : lattice_.states) weighted = weighted || (state.is_final && !is_one(state.final_weight));
    return kExpanded | kMutable | (acceptor ? kAcceptor : kNotAcceptor) | (eps ? kEpsilons : kNoEpsilons) |
           (in_eps ? kInputEpsilons : kNoInputEpsilons) | (out_eps ? kOutputEpsilons : kNoOutputEpsilons) |
           (weighted ? kWeighted : kUnweighted);
  }

  float narrow(double cost) const {
    const float narrowed = static_cast<float>(cost);
    if (!std::isfinite(narrowed))
      throw LatticeError(lattice_.origin + ": expected costs that a 32-bit float can hold, got " +
                             std::to_string(cost) + "; scale the lattice",
                         0);
    return narrowed;
  }

  // null: the weight "zero" of a state that is not final.
  void put_weight(const Weight* weight) {
    const float inf = std::numeric_limits<float>::infinity();
    put(weight ? narrow(weight->graph) : inf, out_);
    put(weight ? narrow(weight->acoustic) : inf, out_);
    if (!compact_) return;
    const uint32_t n = weight ? weight->n_tids : 0;
    put(static_cast<int32_t>(n), out_);
    if (n > 0)
      out_->append(reinterpret_cast<const char*>(&lattice_.tids[weight->first_tid]), size_t{n} * sizeof(int32_t));
  }

  void put_state_lines(int32_t s) {
    const State& state = lattice_.states[s];
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) {
      const Arc& arc = lattice_.arcs[a];
      *out_ += std::to_string(s) + '\t' + std::to_string(arc.next) + '\t' + std::to_string(in_label(arc));
      if (!compact_) *out_ += '\t' + std::to_string(arc.word);
      put_text_weight(arc.weight);
    }
    if (state.is_final) {
      *out_ += std::to_string(s);
      put_text_weight(state.final_weight);
    } else if (state.n_arcs == 0) {  // else nothing would tell of this state
      *out_ += std::to_string(s) + "\tInfinity,Infinity" + (compact_ ? "," : "") + "\n";
    }
  }

  // OpenFst leaves a weight of one out. In the state-level form the frames are no part of it.
  void put_text_weight(const Weight& weight) {
    const float graph = narrow(weight.graph), acoustic = narrow(weight.acoustic);  // 0 also where a double is not
    if (graph != 0 || acoustic != 0 || (compact_ && weight.n_tids > 0)) {
      out_->push_back('\t');
      put_cost(graph, out_);
      out_->push_back(',');
      put_cost(acoustic, out_);
      if (compact_) out_->push_back(',');
      for (uint32_t i = 0; compact_ && i < weight.n_tids; ++i) {
        if (i > 0) out_->push_back('_');
        *out_ += std::to_string(lattice_.tids[weight.first_tid + i]);
      }
    }
    out_->push_back('\n');
  }

  const Lattice& lattice_;
  const bool compact_;
  std::string* out_;
};

}  // namespace

void write_lattice(const Lattice& lattice, const WriteOptions& options, std::string* out) {
  if (options.compact && lattice.is_state_level) return write_lattice(compacted(lattice), options, out);
  if (!options.compact && !is_spelled_out(lattice)) return write_lattice(spelled_out(lattice), options, out);
  Writer writer(lattice, options.compact, out);
  options.binary ? writer.write_binary() : writer.write_text();
}

}  // namespace kaldi_punct
