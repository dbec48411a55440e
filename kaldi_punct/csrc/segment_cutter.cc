#include "segment_cutter.h"

namespace kaldi_punct {
namespace {

constexpr char kPhoneChanged[] = "a phone changes before its final transition: broken lattice, or another model's";

}  // namespace

Cut SegmentCutter::word(Frames frames, bool has_word) const {
  if (frames.n == 0) return {};
  switch (at(frames, 0).role) {
    case PhoneRole::kNonword:
      return {skip_phone(frames, 0), false};
    case PhoneRole::kBegin:
      return {has_word ? normal_word(frames) : 0, true};
    case PhoneRole::kSingleton:
      return {has_word ? skip_phone(frames, 0) : 0, true};
    default:
      return {};
  }
}

Cut SegmentCutter::last_word(Frames frames, bool has_word) const {
  if (has_word) {
    if (!is_plausible_word(frames)) note("an incomplete word at the end: was the decoder cut off?");
  } else if (!is_silence(frames)) {
    note("a partial word without label at the end: was the decoder cut off?");
  } else if (!ends_in_final(frames)) {
    note("an incomplete silence at the end: was the decoder cut off?");
  }
  return {frames.n, has_word};
}

void SegmentCutter::last_phone(Frames frames) const {
  int32_t n_final = 0;
  for (int32_t i = 0; i < frames.n; ++i) {
    if (at(frames, i).phone != at(frames, 0).phone) note(kPhoneChanged);
    n_final += at(frames, i).is_final;
  }
  if (frames.n > 0 && n_final != 1) note("an incomplete phone at the end: was the decoder cut off?");
}

// Frames of a word of two or more phones.
int32_t SegmentCutter::normal_word(Frames frames) const {
  int32_t i = skip_phone(frames, 0);
  if (i == 0) return 0;
  for (; i < frames.n && at(frames, i).role != PhoneRole::kEnd; ++i)
    if (at(frames, i).role != PhoneRole::kInternal) note("a phone that is not word-internal inside a word");
  return i == frames.n ? 0 : skip_phone(frames, i);
}

// Behind the phone that frame i belongs to; 0 if frames end before another phone is seen: it may go on.
int32_t SegmentCutter::skip_phone(Frames frames, int32_t i) const {
  const int32_t phone = at(frames, i).phone;
  for (; i < frames.n; ++i) {
    if (at(frames, i).phone != phone) note(kPhoneChanged);
    if (at(frames, i).is_final) break;
  }
  if (i == frames.n) return 0;
  ++i;
  if (reorder_)
    while (i < frames.n && at(frames, i).is_self_loop) ++i;
  if (i == frames.n) return 0;
  if (at(frames, i - 1).phone != phone) note(kPhoneChanged);
  return i;
}

bool SegmentCutter::ends_in_final(Frames frames) const {
  int32_t i = frames.n - 1;
  if (reorder_)
    while (i > 0 && at(frames, i).is_self_loop) --i;
  return at(frames, i).is_final;
}

bool SegmentCutter::is_plausible_word(Frames frames) const {
  const TidInfo &first = at(frames, 0), &last = at(frames, frames.n - 1);
  const bool one_phone = first.role == PhoneRole::kSingleton && first.phone == last.phone;
  const bool many_phones = first.role == PhoneRole::kBegin && last.role == PhoneRole::kEnd;
  return (one_phone || many_phones) && ends_in_final(frames);
}

}  // namespace kaldi_punct
