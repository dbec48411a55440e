#include "lattice_aligner.h"

#include <memory>
#include <utility>
#include <vector>

#include "epsilons.h"
#include "lattice_forms.h"
#include "lattice_shape.h"
#include "search_graph.h"
#include "segment_cutter.h"

namespace kaldi_punct {
namespace {

// For silences and partial words without a label, until epsilons are removed: they have frames, so they must stay.
constexpr int32_t kSilence = -2;
constexpr int32_t kPartialWord = -3;

std::vector<int32_t> words_of(const Lattice& lattice) {
  std::vector<int32_t> words(lattice.arcs.size());
  for (size_t a = 0; a < words.size(); ++a) words[a] = lattice.arcs[a].word;
  return words;
}

// Follows the paths of a lattice; Rules say what of the symbols read can be put out.
template <class Rules>
class Search {
 public:
  Search(const Lattice& lattice, int64_t max_nodes, const Rules& rules)
      : lattice_(lattice),
        rules_(rules),
        // Spans of the pools' beginnings are those of the lattice's arcs.
        graph_(ranks_of(lattice), max_nodes, lattice.tids, words_of(lattice)),
        end_(static_cast<int32_t>(lattice.states.size())) {}

  Lattice run() {
    if (lattice_.start < 0) return {};
    graph_.add({{}, lattice_.start, 0});
    for (int32_t node; graph_.next(&node);) visit(node);
    Lattice out = graph_.take_graph();
    out.tids = std::move(graph_.items);
    return out;
  }

 private:
  void visit(int32_t node) {
    const SearchNode here = graph_.node(node);
    if (put_out(here, false)) return;
    if (here.state != end_)
      read_arcs(here);
    else if (here.pending.items.n + here.pending.words.n == 0)
      graph_.set_final(node, {});
    else
      put_out(here, true);
  }

  // Adds the arc of the segment that the pending frames begin with, if it ends in them; is_forced: whatever they hold.
  bool put_out(const SearchNode& here, bool is_forced) {
    const auto [items, words] = here.pending;
    const Frames frames{graph_.items.data() + items.first, static_cast<int32_t>(items.n)};
    const auto out = is_forced ? rules_.force(frames, graph_.words.data() + words.first, words.n)
                               : rules_.find(frames, graph_.words.data() + words.first, words.n);
    if (!out.is_found) return false;
    const SearchNode then{{items.behind(out.n_frames), words.behind(out.n_words)}, here.state, 0};
    graph_.add_arc(out.label, graph_.add(then), {0, 0, items.first, out.n_frames});
    return true;
  }

  void read_arcs(const SearchNode& here) {
    const State& state = lattice_.states[static_cast<size_t>(here.state)];
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) {
      const Arc& arc = lattice_.arcs[a];
      read(here, arc.next, arc.weight, {a, rules_.takes_words() && arc.word != 0 ? 1u : 0u});
    }
    if (state.is_final) read(here, end_, state.final_weight, {});
  }

  void read(SearchNode here, int32_t next, const Weight& weight, Span word) {
    here.state = next;
    const int32_t to = graph_.add_extended(here, {weight.first_tid, weight.n_tids}, word);
    graph_.add_arc(0, to, {weight.graph, weight.acoustic, 0, 0});
  }

  const Lattice& lattice_;
  const Rules& rules_;
  SearchGraph graph_;
  int32_t end_;  // the state behind all final ones: final weights are arcs to it
};

// What goes onto an arc.
struct Output {
  bool is_found = false;
  int32_t label = 0;
  uint32_t n_frames = 0;
  uint32_t n_words = 0;  // used up
};

struct WordRules {
  SegmentCutter cutter;
  int32_t silence;
  int32_t partial_word;

  bool takes_words() const { return true; }

  Output find(Frames frames, const int32_t* words, uint32_t n_words) const {
    const Cut cut = cutter.word(frames, n_words > 0);
    if (cut.n_frames == 0) return {};
    return {true, cut.is_word ? words[0] : silence, static_cast<uint32_t>(cut.n_frames), cut.is_word ? 1u : 0u};
  }

  Output force(Frames frames, const int32_t* words, uint32_t n_words) const {
    if (frames.n == 0) {  // Kaldi discards these words
      cutter.words_left();
      return {true, 0, 0, n_words};
    }
    const Cut cut = cutter.last_word(frames, n_words > 0);
    const int32_t no_word = cutter.is_silence(frames) ? silence : partial_word;
    return {true, cut.is_word ? words[0] : no_word, static_cast<uint32_t>(frames.n), cut.is_word ? 1u : 0u};
  }
};

struct PhoneRules {
  SegmentCutter cutter;
  const TidTable& table;
  bool replaces_words;

  bool takes_words() const { return !replaces_words; }

  Output find(Frames frames, const int32_t* words, uint32_t n_words) const {
    const int32_t n_frames = cutter.phone(frames);
    // Else words might heap up: an arc without frames.
    if (n_frames == 0) return n_words > 1 ? Output{true, words[0], 0, 1} : Output{};
    return with(frames, static_cast<uint32_t>(n_frames), words, n_words);
  }

  Output force(Frames frames, const int32_t* words, uint32_t n_words) const {
    cutter.last_phone(frames);
    return with(frames, static_cast<uint32_t>(frames.n), words, n_words);
  }

  Output with(Frames frames, uint32_t n_frames, const int32_t* words, uint32_t n_words) const {
    if (replaces_words) return {true, table[frames.tids[0]].phone, n_frames, 0};
    return {true, n_words > 0 ? words[0] : 0, n_frames, n_words > 0 ? 1u : 0u};
  }
};

AlignedLattice finish(Lattice lattice, const char* problem) {
  for (Arc& arc : lattice.arcs)
    if (arc.word < 0) arc.word = 0;
  return {std::make_shared<const Lattice>(std::move(lattice)), problem == nullptr ? "" : problem};
}

}  // namespace

AlignedLattice align_words(const Lattice& lattice, const WordAligner& aligner, const WordLabels& labels,
                           double max_expand) {
  if (lattice.is_state_level) return align_words(compacted(lattice), aligner, labels, max_expand);
  aligner.table().check(lattice.tids);
  const char* problem = nullptr;
  const WordRules rules{SegmentCutter(aligner.table(), aligner.reorder(), &problem),
                        labels.silence == 0 ? kSilence : labels.silence,
                        labels.partial_word == 0 ? kPartialWord : labels.partial_word};
  Lattice graph = Search<WordRules>(lattice, max_nodes(max_expand, lattice.states.size()), rules).run();
  graph.origin = lattice.origin;
  return finish(remove_epsilons(std::move(graph)), problem);
}

Lattice phone_graph(const Lattice& lattice, const TidTable& table, const PhoneOptions& options, const char** problem) {
  if (lattice.is_state_level) return phone_graph(compacted(lattice), table, options, problem);
  table.check(lattice.tids);
  const PhoneRules rules{SegmentCutter(table, options.reorder, problem), table, options.replace_words};
  Lattice graph = Search<PhoneRules>(lattice, max_nodes(0, 0), rules).run();
  graph.origin = lattice.origin;
  return graph;
}

AlignedLattice align_phones(const Lattice& lattice, const TidTable& table, const PhoneOptions& options) {
  const char* problem = nullptr;
  Lattice graph = phone_graph(lattice, table, options, &problem);
  return finish(options.remove_epsilons ? remove_epsilons(std::move(graph)) : top_sorted(graph), problem);
}

}  // namespace kaldi_punct
