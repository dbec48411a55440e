#include "tid_table.h"

#include <string>

#include "errors.h"

namespace kaldi_punct {

TidTable::TidTable(const TransitionModel& model, const WordBoundary* boundary) : has_roles_(boundary != nullptr) {
  infos_.resize(static_cast<size_t>(model.n_transition_ids()) + 1);
  for (int32_t tid = 1; tid <= model.n_transition_ids(); ++tid) {
    const int32_t phone = model.phone(tid);
    const PhoneRole role = has_roles_ ? boundary->role(phone) : PhoneRole::kUnknown;
    infos_[static_cast<size_t>(tid)] = {phone, role, model.is_final(tid), model.is_self_loop(tid)};
  }
}

void TidTable::check(const std::vector<int32_t>& tids) const {
  for (int32_t tid : tids) {
    if (tid <= 0 || tid >= static_cast<int32_t>(infos_.size()))
      throw LatticeError("expected transition-ids from 1 to " + std::to_string(infos_.size() - 1) + ", got " +
                             std::to_string(tid) + "; is this the model that made the lattice?",
                         0);
    if (has_roles_ && (*this)[tid].role == PhoneRole::kUnknown)
      throw LatticeError("expected phones of the word boundary file, got phone " + std::to_string((*this)[tid].phone) +
                             "; give the word_boundary.int of the model's lang directory",
                         0);
  }
}

}  // namespace kaldi_punct
