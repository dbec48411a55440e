#include "lexicon_aligner.h"

#include <algorithm>
#include <string>
#include <utility>

#include "epsilons.h"
#include "errors.h"
#include "lattice_aligner.h"
#include "lattice_draft.h"
#include "lattice_forms.h"
#include "search_graph.h"

namespace kaldi_punct {
namespace {

// For labels of 0 until epsilons are removed: they have frames, so they must stay.
constexpr int32_t kNoWord = -2;

// What the last step on the way to a node changed: the same phones and word must be tried once, not at each later node.
enum Freshness : uint32_t {
  kOld = 0,
  kNew = 1,     // the last phone is new; or the first word
  kAllNew = 2,  // phones were put out before these: every sequence of them is new
};

uint32_t tag_of(Freshness phones, Freshness word) { return phones | word << 2; }
Freshness phones_freshness(uint32_t tag) { return static_cast<Freshness>(tag & 3); }
bool is_word_new(uint32_t tag) { return tag >> 2 != 0; }

// The phones of a phone-aligned lattice, each kind once: those with the same frames are the same.
class Pieces {
 public:
  explicit Pieces(const Lattice& phones, const TidTable& table) {
    of_arc.reserve(phones.arcs.size());
    for (const Arc& arc : phones.arcs) of_arc.push_back(arc.weight.n_tids == 0 ? -1 : find(phones, arc.weight, table));
  }

  struct Piece {
    Span tids;
    int32_t phone;
  };
  std::vector<int32_t> of_arc;  // -1: no phone
  std::vector<Piece> pieces;

 private:
  int32_t find(const Lattice& phones, const Weight& weight, const TidTable& table) {
    const int32_t* tids = phones.tids.data() + weight.first_tid;
    const uint64_t hash = hash_ints(weight.n_tids, tids, weight.n_tids);
    const int32_t found = index_.find(hash, [&](int32_t i) {
      const Span other = pieces[static_cast<size_t>(i)].tids;
      return other.n == weight.n_tids && std::equal(tids, tids + weight.n_tids, phones.tids.data() + other.first);
    });
    if (found >= 0) return found;
    const int32_t made = static_cast<int32_t>(pieces.size());
    pieces.push_back({{weight.first_tid, weight.n_tids}, table[tids[0]].phone});
    index_.add(hash, made);
    return made;
  }

  HashIndex index_;
};

std::vector<int32_t> words_of(const Lattice& lattice) {
  std::vector<int32_t> words(lattice.arcs.size());
  for (size_t a = 0; a < words.size(); ++a) words[a] = lattice.arcs[a].word;
  return words;
}

class LexiconSearch {
 public:
  // phones: phone-aligned, epsilons included. It ends in states without arcs, with final weights of one.
  LexiconSearch(Lattice phones, const TidTable& table, const Lexicon& lexicon, const LexiconOptions& options)
      : phones_(std::move(phones)),
        pieces_(phones_, table),
        lexicon_(lexicon),
        options_(options),
        graph_(ranks_of(phones_), max_nodes(options.max_expand, phones_.states.size()), pieces_.of_arc,
               words_of(phones_)) {}

  Lattice run(const char** problem) {
    if (phones_.start < 0) return {};
    graph_.add({{}, phones_.start, tag_of(kOld, kOld)});
    for (int32_t node; graph_.next(&node);) visit(node);
    bool has_end = false;
    for (int32_t node : ends_) has_end |= end(node);
    if (!has_end) {
      if (*problem == nullptr)
        *problem = "frames at the end that make no word of the lexicon: was the decoder cut off?";
      for (int32_t node : ends_) force(node);
    }
    Lattice out = graph_.take_graph();
    out.tids = std::move(phones_.tids);
    return out;
  }

 private:
  const int32_t* items(const SearchNode& here) const { return graph_.items.data() + here.pending.items.first; }
  int32_t first_word(const SearchNode& here) const { return graph_.words[here.pending.words.first]; }

  void visit(int32_t node) {
    const SearchNode here = graph_.node(node);
    follow_phones(here);
    put_out_silences(here);
    if (here.pending.words.n > 0) put_out_words(here);
    const State& state = phones_.states[static_cast<size_t>(here.state)];
    if (can_go_on(here))
      for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) read(here, a);
    if (state.is_final) ends_.push_back(node);
  }

  // Fills way_: the nodes of the lexicon for the first 0, 1, ... pending phones, as far as it has them.
  void follow_phones(const SearchNode& here) {
    way_.assign(1, Lexicon::kRoot);
    for (uint32_t i = 0; i < here.pending.items.n; ++i) {
      const int32_t next = lexicon_.next(way_.back(), pieces_.pieces[static_cast<size_t>(items(here)[i])].phone);
      if (next < 0) return;
      way_.push_back(next);
    }
  }

  void put_out_silences(const SearchNode& here) {
    const Lexicon::Lengths* lengths = lexicon_.lengths(0);
    if (lengths == nullptr) return;
    const int32_t n = static_cast<int32_t>(here.pending.items.n);
    const Freshness fresh = phones_freshness(here.tag);
    if (fresh == kAllNew)
      put_out(here, 0, lengths->least, std::min(lengths->most, n));
    else if (fresh == kNew)
      put_out(here, 0, n, n);
  }

  void put_out_words(const SearchNode& here) {
    const int32_t word = first_word(here), n = static_cast<int32_t>(here.pending.items.n);
    const Freshness fresh = phones_freshness(here.tag);
    if (is_word_new(here.tag) || fresh == kAllNew) {
      const Lexicon::Lengths* lengths = lexicon_.lengths(word);
      if (lengths == nullptr)
        throw LatticeError("expected words of the align lexicon, got word " + std::to_string(word) +
                               "; give the align_lexicon.int of the graph that made the lattice",
                           0);
      put_out(here, word, lengths->least, std::min(lengths->most, n));
    } else if (fresh == kNew) {
      put_out(here, word, n, n);
    }
  }

  // Adds arcs for a word (0: silence) with the first `least` to `most` pending phones, where the lexicon has it so.
  void put_out(const SearchNode& here, int32_t word, int32_t least, int32_t most) {
    for (int32_t n = least; n <= most && n < static_cast<int32_t>(way_.size()); ++n) {
      const Lexicon::Entry entry = lexicon_.find(way_[static_cast<size_t>(n)], word);
      if (!entry.is_whole) continue;
      SearchNode then = here;
      then.pending.items = here.pending.items.behind(static_cast<uint32_t>(n));
      then.pending.words = here.pending.words.behind(word == 0 ? 0 : 1);
      const bool has_phones = then.pending.items.n > 0, has_word = word != 0 && then.pending.words.n > 0;
      // A word without phones leaves the phones as they were; silence may still have to take them.
      then.tag = tag_of(has_phones && (n > 0 || word != 0) ? kAllNew : kOld, has_word ? kNew : kOld);
      const int32_t label = options_.keeps_words ? word : entry.new_word;
      graph_.add_arc(label == 0 ? kNoWord : label, graph_.add(then), frames_of(here, static_cast<uint32_t>(n)));
    }
  }

  // False if no arc that is read could lead to a word or silence of the lexicon.
  bool can_go_on(const SearchNode& here) const {
    const uint32_t n = here.pending.items.n;
    if (n == 0 || here.pending.words.n == 0) return true;
    if (way_.size() <= n) return false;
    return lexicon_.find(way_.back(), 0).is_begun || lexicon_.find(way_.back(), first_word(here)).is_begun;
  }

  void read(const SearchNode& here, uint64_t a) {
    const Arc& arc = phones_.arcs[a];
    const bool has_phone = arc.weight.n_tids > 0;
    SearchNode then = here;
    then.state = arc.next;
    const bool is_first_word = arc.word != 0 && here.pending.words.n == 0;
    then.tag = tag_of(has_phone ? kNew : kOld, is_first_word ? kNew : kOld);
    const int32_t to = graph_.add_extended(then, {a, has_phone ? 1u : 0u}, {a, arc.word != 0 ? 1u : 0u});
    graph_.add_arc(0, to, {arc.weight.graph, arc.weight.acoustic, 0, 0});
  }

  // The frames of the first n pending phones.
  Weight frames_of(const SearchNode& here, uint32_t n) {
    if (n == 0) return {};
    Span all = pieces_.pieces[static_cast<size_t>(items(here)[0])].tids;
    for (uint32_t i = 1; i < n; ++i) {
      const Span more = pieces_.pieces[static_cast<size_t>(items(here)[i])].tids;
      all = extend(&phones_.tids, all, more);
    }
    graph_.check_ints(phones_.tids.size());
    return {0, 0, all.first, all.n};
  }

  bool end(int32_t node) {
    const Pending& pending = graph_.node(node).pending;
    if (pending.items.n + pending.words.n > 0) return false;
    graph_.set_final(node, {});
    return true;
  }

  // Puts out all that is pending at the end, where nothing of it was.
  void force(int32_t node) {
    if (graph_.has_arcs(node)) return;
    const SearchNode here = graph_.node(node);
    const int32_t label = here.pending.words.n > 0 ? first_word(here) : options_.partial_word;
    const Weight frames = frames_of(here, here.pending.items.n);
    const int32_t to = graph_.add({{}, here.state, tag_of(kNew, kNew)});
    graph_.add_late_arc(node, label == 0 ? kNoWord : label, to, frames);
    graph_.set_final(to, {});
  }

  Lattice phones_;
  Pieces pieces_;
  const Lexicon& lexicon_;
  const LexiconOptions& options_;
  SearchGraph graph_;
  std::vector<int32_t> way_;
  std::vector<int32_t> ends_;  // nodes at the lattice's end
};

}  // namespace

AlignedLattice LexiconAligner::align(const Lattice& lattice, const LexiconOptions& options) const {
  const char* problem = nullptr;
  Lattice phones = phone_graph(lattice, table_, {reorder_, false, false}, &problem);
  Lattice graph = LexiconSearch(std::move(phones), table_, *lexicon_, options).run(&problem);
  graph.origin = lattice.origin;
  Lattice out = remove_epsilons(std::move(graph));
  for (Arc& arc : out.arcs)
    if (arc.word < 0) arc.word = 0;
  return {std::make_shared<const Lattice>(std::move(out)), problem == nullptr ? "" : problem};
}

Alignment LexiconAligner::align(const std::vector<int32_t>& words, const std::vector<int32_t>& tids) const {
  LatticeDraft draft("");
  draft.set_start(draft.add_state());
  for (int32_t word : words) {
    const int32_t next = draft.add_state();
    draft.add_arc(next - 1, word, next, {});
  }
  draft.set_final(draft.n_states() - 1, draft.weight(0, 0, tids.data(), tids.size()));
  AlignedLattice aligned = align(draft.finish(), {0, 0, true});
  const Lattice& lattice = *aligned.lattice;
  Alignment out;
  out.problem = std::move(aligned.problem);
  out.n_unaligned = static_cast<int32_t>(words.size());
  int32_t at = 0;
  // All states lead to the end, and all paths cost the same.
  for (int32_t s = lattice.start; s >= 0 && !lattice.states[static_cast<size_t>(s)].is_final;) {
    const Arc& arc = lattice.arcs[lattice.states[static_cast<size_t>(s)].first_arc];
    out.segments.push_back({arc.word, at, static_cast<int32_t>(arc.weight.n_tids)});
    at += static_cast<int32_t>(arc.weight.n_tids);
    if (arc.word != 0) --out.n_unaligned;
    s = arc.next;
  }
  if (out.n_unaligned > 0 && out.problem.empty()) out.problem = "words without frames at the end";
  return out;
}

}  // namespace kaldi_punct
