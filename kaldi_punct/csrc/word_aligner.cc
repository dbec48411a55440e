#include "word_aligner.h"

#include "segment_cutter.h"

namespace kaldi_punct {

Alignment WordAligner::align(const std::vector<int32_t>& words, const std::vector<int32_t>& tids) const {
  table_.check(tids);
  const char* problem = nullptr;
  const SegmentCutter cutter(table_, reorder_, &problem);
  Alignment out;
  size_t next_word = 0;
  const int32_t n = static_cast<int32_t>(tids.size());
  for (int32_t at = 0; at < n;) {
    const Frames frames{tids.data() + at, n - at};
    const bool has_word = next_word < words.size();
    Cut cut = cutter.word(frames, has_word);
    if (cut.n_frames == 0) cut = cutter.last_word(frames, has_word);  // or what a forced end cut off
    out.segments.push_back({cut.is_word ? words[next_word++] : 0, at, cut.n_frames});
    at += cut.n_frames;
  }
  out.n_unaligned = static_cast<int32_t>(words.size() - next_word);
  if (out.n_unaligned > 0) cutter.words_left();
  if (problem != nullptr) out.problem = problem;
  return out;
}

}  // namespace kaldi_punct
