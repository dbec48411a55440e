#include "phone_aligner.h"

#include "segment_cutter.h"

namespace kaldi_punct {

Alignment PhoneAligner::align(const std::vector<int32_t>& tids) const {
  table_.check(tids);
  const char* problem = nullptr;
  const SegmentCutter cutter(table_, reorder_, &problem);
  Alignment out;
  const int32_t n = static_cast<int32_t>(tids.size());
  for (int32_t at = 0; at < n;) {
    const Frames frames{tids.data() + at, n - at};
    int32_t n_frames = cutter.phone(frames);
    if (n_frames == 0) {  // the last phone, or what a forced end cut off
      cutter.last_phone(frames);
      n_frames = frames.n;
    }
    out.segments.push_back({table_[frames.tids[0]].phone, at, n_frames});
    at += n_frames;
  }
  if (problem != nullptr) out.problem = problem;
  return out;
}

}  // namespace kaldi_punct
