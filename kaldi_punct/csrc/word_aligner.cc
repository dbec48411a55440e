#include "word_aligner.h"

#include "errors.h"

namespace kaldi_punct {
namespace {

void warn(const char* text, Alignment* out) {
  if (out->problem.empty()) out->problem = text;
}

constexpr char kPhoneChanged[] = "a phone changes before its final transition: broken lattice, or another model's";

}  // namespace

struct WordAligner::Frames {
  const int32_t* tids;
  const PhoneRole* roles;
  int32_t n;
  const TransitionModel& model;

  int32_t phone(int32_t i) const { return model.phone(tids[i]); }
};

Alignment WordAligner::align(const std::vector<int32_t>& words, const std::vector<int32_t>& tids) const {
  std::vector<PhoneRole> roles;
  roles.reserve(tids.size());
  for (int32_t tid : tids) {
    if (!model_->has(tid))
      throw LatticeError("expected transition-ids from 1 to " + std::to_string(model_->n_transition_ids()) + ", got " +
                             std::to_string(tid) + "; is this the model that made the lattice?",
                         0);
    roles.push_back(boundary_->role(model_->phone(tid)));
    if (roles.back() == PhoneRole::kUnknown)
      throw LatticeError("expected phones of the word boundary file, got phone " + std::to_string(model_->phone(tid)) +
                             "; give the word_boundary.int of the model's lang directory",
                         0);
  }
  Alignment out;
  size_t next_word = 0;
  int32_t at = 0;
  const int32_t n = static_cast<int32_t>(tids.size());
  while (at < n) {
    const Frames frames{tids.data() + at, roles.data() + at, n - at, *model_};
    const bool has_word = next_word < words.size();
    int32_t length = has_word ? word_length(frames, &out) : 0;
    bool is_word = length > 0;
    if (length == 0) length = silence_length(frames, &out);
    if (length == 0 && has_word) is_word = (length = one_phone_word_length(frames, &out)) > 0;
    if (length == 0) {  // the last word or silence, or what a forced end cut off
      length = frames.n;
      is_word = has_word;
      note_forced_end(frames, has_word, &out);
    }
    out.segments.push_back({is_word ? words[next_word++] : 0, at, length});
    at += length;
  }
  out.n_unaligned = static_cast<int32_t>(words.size() - next_word);
  if (out.n_unaligned > 0) warn("words without frames at the end", &out);
  return out;
}

// Frames of the silence that begins here; 0 if none does, or if its end is not seen.
int32_t WordAligner::silence_length(const Frames& frames, Alignment* out) const {
  if (frames.roles[0] != PhoneRole::kNonword) return 0;
  return skip_phone(frames, 0, out);
}

int32_t WordAligner::one_phone_word_length(const Frames& frames, Alignment* out) const {
  if (frames.roles[0] != PhoneRole::kSingleton) return 0;
  return skip_phone(frames, 0, out);
}

// Frames of the word of two or more phones that begins here.
int32_t WordAligner::word_length(const Frames& frames, Alignment* out) const {
  if (frames.roles[0] != PhoneRole::kBegin) return 0;
  int32_t i = skip_phone(frames, 0, out);
  if (i == 0) return 0;
  for (; i < frames.n && frames.roles[i] != PhoneRole::kEnd; ++i)
    if (frames.roles[i] != PhoneRole::kInternal) warn("a phone that is not word-internal inside a word", out);
  return i == frames.n ? 0 : skip_phone(frames, i, out);
}

// Behind the phone that frame i belongs to; 0 if frames end before another phone is seen: it may go on.
int32_t WordAligner::skip_phone(const Frames& frames, int32_t i, Alignment* out) const {
  const int32_t phone = frames.phone(i);
  for (; i < frames.n; ++i) {
    if (frames.phone(i) != phone) warn(kPhoneChanged, out);
    if (model_->is_final(frames.tids[i])) break;
  }
  if (i == frames.n) return 0;
  ++i;
  if (reorder_)
    while (i < frames.n && model_->is_self_loop(frames.tids[i])) ++i;
  if (i == frames.n) return 0;
  if (frames.phone(i - 1) != phone) warn(kPhoneChanged, out);
  return i;
}

void WordAligner::note_forced_end(const Frames& frames, bool has_word, Alignment* out) const {
  if (has_word) {
    if (!is_plausible_word(frames)) warn("an incomplete word at the end: was the decoder cut off?", out);
  } else if (frames.roles[0] != PhoneRole::kNonword) {
    warn("a partial word without label at the end: was the decoder cut off?", out);
  }
}

bool WordAligner::is_plausible_word(const Frames& frames) const {
  const int32_t last = frames.n - 1;
  const bool one_phone = frames.roles[0] == PhoneRole::kSingleton && frames.phone(0) == frames.phone(last);
  const bool many_phones = frames.roles[0] == PhoneRole::kBegin && frames.roles[last] == PhoneRole::kEnd;
  if (!one_phone && !many_phones) return false;
  return model_->is_final(frames.tids[last]) || (reorder_ && model_->is_self_loop(frames.tids[last]));
}

}  // namespace kaldi_punct
