// Where the phone, word or silence ends that begins at a frame; the rules of Kaldi's lattice-align-words and
// lattice-align-phones (lat/word-align-lattice.cc, lat/phone-align-lattice.cc).
#pragma once

#include <cstdint>

#include "tid_table.h"

namespace kaldi_punct {

// What is left of a path, or what was read of it.
struct Frames {
  const int32_t* tids;
  int32_t n;
};

struct Cut {
  int32_t n_frames = 0;  // 0: the end is not seen
  bool is_word = false;  // false: silence, or a part of a word that has no label
};

class SegmentCutter {
 public:
  // reorder: the graph was made with --reorder=true, so that self-loops follow the transition out of a state.
  // problem: takes a text on the first thing that is odd; not null.
  SegmentCutter(const TidTable& table, bool reorder, const char** problem)
      : table_(table), reorder_(reorder), problem_(problem) {}

  // The word or silence that begins with the first frame. It is only known to end where another frame follows.
  // has_word: a word is there to be put on it.
  Cut word(Frames frames, bool has_word) const;

  // All frames, as the last word or silence of a path: what `word` found no end of.
  Cut last_word(Frames frames, bool has_word) const;

  bool is_silence(Frames frames) const { return at(frames, 0).role == PhoneRole::kNonword; }

  // Frames of the first phone; 0 if its end is not seen.
  int32_t phone(Frames frames) const { return frames.n == 0 ? 0 : skip_phone(frames, 0); }

  // All frames, as the last phone of a path.
  void last_phone(Frames frames) const;

  // Notes that words are left without frames.
  void words_left() const { note("words without frames at the end"); }

 private:
  const TidInfo& at(Frames frames, int32_t i) const { return table_[frames.tids[i]]; }
  int32_t normal_word(Frames frames) const;
  int32_t skip_phone(Frames frames, int32_t i) const;
  bool ends_in_final(Frames frames) const;
  bool is_plausible_word(Frames frames) const;
  void note(const char* text) const {
    if (*problem_ == nullptr) *problem_ = text;
  }

  const TidTable& table_;
  bool reorder_;
  const char** problem_;
};

}  // namespace kaldi_punct
