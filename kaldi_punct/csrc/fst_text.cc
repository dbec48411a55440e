#include "fst_text.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "lattice_builder.h"
#include "numbers.h"
#include "text.h"

namespace kaldi_punct {
namespace {

constexpr size_t kMostShown = 80;  // bytes of a bad line in an error text

// A line as read; states keep the numbers of the text until all are known.
struct TextArc {
  int64_t from = 0;
  int64_t to = 0;  // -1: this is a final weight
  int32_t word = 0;
  Weight weight;
  bool is_real = true;  // false: weight zero
};

class TextReader {
 public:
  TextReader(ByteCursor& in, bool needs_empty_line) : in_(in), needs_empty_line_(needs_empty_line) {}

  Lattice read() {
    const uint64_t offset = in_.offset();
    std::string_view line;
    while (next_line(&line)) {
      split_fields(line, &fields_);
      if (fields_.empty()) break;
      if (ok_) ok_ = take_line(line);
    }
    if (ok_) build();
    return builder_.finish(offset);
  }

 private:
  bool next_line(std::string_view* line) {
    line_offset_ = in_.offset();
    const char* newline = static_cast<const char*>(in_.left() ? std::memchr(in_.at(), '\n', in_.left()) : nullptr);
    if (newline == nullptr) {
      if (needs_empty_line_) throw Truncated();
      if (in_.left() == 0) return false;
      *line = std::string_view(in_.at(), in_.left());
      in_.skip(in_.left());
      return true;
    }
    *line = std::string_view(in_.at(), static_cast<size_t>(newline - in_.at()));
    in_.skip(line->size() + 1);
    return true;
  }

  bool take_line(std::string_view line) {
    const size_t n = fields_.size();
    const bool has_comma = fields_[n - 1].find(',') != std::string_view::npos;
    TextArc arc;
    bool good = n <= 5 && parse_int(fields_[0], &arc.from);
    if (n <= 2) {
      arc.to = -1;
      if (n == 2) good = good && take_weight(fields_[1], &arc);
    } else {
      const bool is_compact = n == 3 || (n == 4 && has_comma);
      good = good && take_arc(is_compact, is_compact ? n == 4 : n == 5, &arc);
      if (good && !lines_.empty() && knows_form_ && is_compact != is_compact_) good = false;
      is_compact_ = is_compact;
      knows_form_ = true;
    }
    if (!good) {
      builder_.note("expected an arc or a final state of a lattice, got '" + printable(line, kMostShown) + "'",
                    line_offset_);
      return false;
    }
    const int64_t most = INT32_MAX;
    if (arc.from < 0 || arc.from > most || arc.to < -1 || (n > 2 && arc.to < 0) || arc.to > most) {
      builder_.note("expected state numbers from 0 to 2147483647, got '" + printable(line, kMostShown) + "'",
                    line_offset_);
      return false;
    }
    lines_.push_back(arc);
    return true;
  }

  bool take_arc(bool is_compact, bool has_weight, TextArc* arc) {
    int64_t label = 0, word = 0;
    if (!parse_int(fields_[1], &arc->to) || !parse_int(fields_[2], &label)) return false;
    if (!is_compact && !parse_int(fields_[3], &word)) return false;
    if (has_weight && !take_weight(fields_.back(), arc)) return false;
    if (is_compact) word = label;
    if (word < 0 || word > INT32_MAX || label < 0 || label > INT32_MAX) return false;
    arc->word = static_cast<int32_t>(word);
    if (!is_compact && label != 0) {
      arc->weight.first_tid = builder_.lattice.tids.size();
      arc->weight.n_tids = 1;
      builder_.lattice.tids.push_back(static_cast<int32_t>(label));
    }
    return true;
  }

  // "<graph>,<acoustic>" or "<graph>,<acoustic>,<tid>_<tid>"
  bool take_weight(std::string_view s, TextArc* arc) {
    const size_t comma = s.find(',');
    if (comma == std::string_view::npos) return false;
    const std::string_view rest = s.substr(comma + 1);
    const size_t comma2 = rest.find(',');
    Weight& weight = arc->weight;
    if (!parse_double(s.substr(0, comma), &weight.graph)) return false;
    if (!parse_double(rest.substr(0, comma2), &weight.acoustic)) return false;
    arc->is_real = builder_.check_costs(weight.graph, weight.acoustic, line_offset_);
    if (comma2 == std::string_view::npos) return true;
    std::vector<int32_t>& tids = builder_.lattice.tids;
    weight.first_tid = tids.size();
    for (std::string_view left = rest.substr(comma2 + 1); !left.empty();) {
      const size_t end = std::min(left.find('_'), left.size());
      int64_t tid = 0;
      if (!parse_int(left.substr(0, end), &tid) || tid <= 0 || tid > INT32_MAX) return false;
      tids.push_back(static_cast<int32_t>(tid));
      left.remove_prefix(std::min(end + 1, left.size()));
    }
    weight.n_tids = static_cast<uint32_t>(tids.size() - weight.first_tid);
    return true;
  }

  // Numbers the states that really occur: a huge number in the text must not become a huge array.
  void build() {
    std::vector<int64_t> numbers;
    for (const TextArc& line : lines_) {
      numbers.push_back(line.from);
      if (line.to >= 0) numbers.push_back(line.to);
    }
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    auto index = [&](int64_t s) {
      return static_cast<int32_t>(std::lower_bound(numbers.begin(), numbers.end(), s) - numbers.begin());
    };
    Lattice& lattice = builder_.lattice;
    lattice.is_state_level = knows_form_ && !is_compact_;
    if (!lines_.empty()) lattice.start = index(lines_[0].from);
    std::stable_sort(lines_.begin(), lines_.end(), [](const TextArc& a, const TextArc& b) { return a.from < b.from; });
    lattice.states.resize(numbers.size());
    size_t i = 0;
    for (size_t s = 0; s < numbers.size(); ++s) {
      State& state = lattice.states[s];
      state.first_arc = lattice.arcs.size();
      for (; i < lines_.size() && lines_[i].from == numbers[s]; ++i) {
        const TextArc& line = lines_[i];
        if (!line.is_real) continue;
        if (line.to < 0) {
          state.is_final = true;
          state.final_weight = line.weight;
        } else {
          lattice.arcs.push_back({line.word, index(line.to), line.weight});
        }
      }
      state.n_arcs = static_cast<uint32_t>(lattice.arcs.size() - state.first_arc);
    }
  }

  ByteCursor& in_;
  bool needs_empty_line_;
  bool ok_ = true;
  bool knows_form_ = false;
  bool is_compact_ = true;
  uint64_t line_offset_ = 0;
  std::vector<std::string_view> fields_;
  std::vector<TextArc> lines_;
  LatticeBuilder builder_;
};

}  // namespace

Lattice read_text(ByteCursor& in, bool needs_empty_line) { return TextReader(in, needs_empty_line).read(); }

}  // namespace kaldi_punct
