// Cuts the frames of a path into words and silences, as Kaldi's lattice-align-words does.
//
// In a lattice the words lie somewhere near their frames, not on them. Word-position-dependent phones tell where each
// word begins and ends; the words are then dealt out in order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transition_model.h"
#include "word_boundary.h"

namespace kaldi_punct {

struct Segment {
  int32_t word = 0;  // 0: silence, or a part of a word that has no label
  int32_t first_frame = 0;
  int32_t n_frames = 0;
};

struct Alignment {
  std::vector<Segment> segments;  // end to end, over all frames
  int32_t n_unaligned = 0;        // words at the end that no frame is left for; they have no segment
  std::string problem;            // what Kaldi warns of, e.g. a partial word at the end; "" if nothing
};

class WordAligner {
 public:
  // reorder: the graph was made with --reorder=true, so that self-loops follow the transition out of a state.
  WordAligner(std::shared_ptr<const TransitionModel> model, std::shared_ptr<const WordBoundary> boundary,
              bool reorder = true)
      : model_(std::move(model)), boundary_(std::move(boundary)), reorder_(reorder) {}

  // words: of the path, without zeros. tids: one a frame. Throws LatticeError for a transition-id or phone that the
  // model or the boundaries do not know.
  Alignment align(const std::vector<int32_t>& words, const std::vector<int32_t>& tids) const;

 private:
  struct Frames;  // what is left of the path

  int32_t silence_length(const Frames& frames, Alignment* out) const;
  int32_t word_length(const Frames& frames, Alignment* out) const;
  int32_t one_phone_word_length(const Frames& frames, Alignment* out) const;
  int32_t skip_phone(const Frames& frames, int32_t i, Alignment* out) const;
  bool is_plausible_word(const Frames& frames) const;
  void note_forced_end(const Frames& frames, bool has_word, Alignment* out) const;

  std::shared_ptr<const TransitionModel> model_;
  std::shared_ptr<const WordBoundary> boundary_;
  bool reorder_;
};

}  // namespace kaldi_punct
