// What a Kaldi model knows of its transition-ids: the phone, and whether one ends the phone or is a self-loop.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kaldi_punct {

class TransitionModel {
 public:
  // Reads a transition model, or the one at the head of a final.mdl: binary or text, with <Tuples> or <Triples>.
  // Throws FormatError; `name` goes before its text.
  TransitionModel(const char* bytes, size_t n, const std::string& name);

  // Transition-ids go from 1 to this.
  int32_t n_transition_ids() const { return static_cast<int32_t>(ids_.size()) - 1; }

  bool has(int32_t tid) const { return tid > 0 && tid < static_cast<int32_t>(ids_.size()); }
  int32_t phone(int32_t tid) const { return ids_[tid].phone; }
  bool is_final(int32_t tid) const { return ids_[tid].is_final; }
  bool is_self_loop(int32_t tid) const { return ids_[tid].is_self_loop; }

 private:
  struct Id {
    int32_t phone = 0;
    bool is_final = false;  // leads to the last state of the phone's topology
    bool is_self_loop = false;
  };
  std::vector<Id> ids_;  // by transition-id; 0 is none
};

}  // namespace kaldi_punct
