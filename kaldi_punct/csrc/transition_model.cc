#include "transition_model.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "errors.h"
#include "model_tokens.h"

namespace kaldi_punct {
namespace {

// An HMM as the topology lists it: for each state the states that its transitions lead to.
using Hmm = std::vector<std::vector<int32_t>>;

struct Topology {
  std::vector<Hmm> hmms;
  std::vector<int32_t> hmm_of_phone;  // by phone; -1: none

  const Hmm* hmm(int32_t phone) const {
    if (phone <= 0 || phone >= static_cast<int32_t>(hmm_of_phone.size())) return nullptr;
    const int32_t i = hmm_of_phone[phone];
    return i < 0 || i >= static_cast<int32_t>(hmms.size()) ? nullptr : &hmms[i];
  }
};

// Each tuple stands for all transitions of its state, so a short file could ask for all memory. Real ones have about 5.
constexpr int32_t kMostTransitions = 64;

void check_transitions(const ModelTokens& in, int64_t n) {
  if (n > kMostTransitions)
    in.fail("at most " + std::to_string(kMostTransitions) + " transitions of an HMM state", std::to_string(n));
}

int32_t take_count(ModelTokens& in, const char* what) {
  const int32_t n = in.take_int();
  if (n < 0) in.fail(what, std::to_string(n));
  return n;
}

Topology take_binary_topology(ModelTokens& in) {
  Topology topology;
  in.take_ints();  // the phones; the next vector says as much
  topology.hmm_of_phone = in.take_ints();
  int32_t n_hmms = in.take_int();
  // -1 announces that forward and self-loop pdf classes are both written (chain topologies).
  const bool has_loop_class = n_hmms == -1;
  if (has_loop_class) n_hmms = take_count(in, "a number of topology entries");
  for (int32_t h = 0; h < n_hmms; ++h) {
    Hmm hmm;
    const int32_t n_states = take_count(in, "a number of HMM states");
    for (int32_t s = 0; s < n_states; ++s) {
      in.take_int();  // forward pdf class
      if (has_loop_class) in.take_int();
      hmm.emplace_back();
      const int32_t n_transitions = take_count(in, "a number of transitions");
      check_transitions(in, n_transitions);
      for (int32_t t = 0; t < n_transitions; ++t) {
        hmm.back().push_back(in.take_int());
        in.skip_float();
      }
    }
    topology.hmms.push_back(std::move(hmm));
  }
  in.expect("</Topology>");
  return topology;
}

Hmm take_text_states(ModelTokens& in) {
  Hmm hmm;
  std::string token;
  for (token = in.take_token(); token == "<State>"; token = in.take_token()) {
    if (in.take_int() != static_cast<int32_t>(hmm.size())) in.fail("HMM states in order from 0", "another");
    hmm.emplace_back();
    for (token = in.take_token(); token != "</State>"; token = in.take_token()) {
      if (token == "<PdfClass>" || token == "<ForwardPdfClass>" || token == "<SelfLoopPdfClass>") {
        in.take_int();
      } else if (token == "<Transition>") {
        hmm.back().push_back(in.take_int());
        check_transitions(in, static_cast<int64_t>(hmm.back().size()));
        in.skip_float();
      } else {
        in.fail("<PdfClass>, <ForwardPdfClass>, <SelfLoopPdfClass>, <Transition> or </State>", token);
      }
    }
  }
  if (token != "</TopologyEntry>") in.fail("<State> or </TopologyEntry>", token);
  return hmm;
}

Topology take_text_topology(ModelTokens& in) {
  constexpr int64_t kMostPhones = 1'000'000;  // a phone number is an array index
  Topology topology;
  std::string token;
  for (token = in.take_token(); token == "<TopologyEntry>"; token = in.take_token()) {
    in.expect("<ForPhones>");
    for (token = in.take_token(); token != "</ForPhones>"; token = in.take_token()) {
      const int64_t phone = std::strtol(token.c_str(), nullptr, 10);
      if (phone <= 0 || phone > kMostPhones) in.fail("a phone number", token);
      if (phone >= static_cast<int64_t>(topology.hmm_of_phone.size()))
        topology.hmm_of_phone.resize(static_cast<size_t>(phone) + 1, -1);
      topology.hmm_of_phone[static_cast<size_t>(phone)] = static_cast<int32_t>(topology.hmms.size());
    }
    topology.hmms.push_back(take_text_states(in));
  }
  if (token != "</Topology>") in.fail("<TopologyEntry> or </Topology>", token);
  return topology;
}

}  // namespace

TransitionModel::TransitionModel(const char* bytes, size_t n, const std::string& name) {
  ModelTokens in(bytes, n, name);
  ids_.resize(1);
  try {
    in.expect("<TransitionModel>");
    in.expect("<Topology>");
    const Topology topology = in.is_binary() ? take_binary_topology(in) : take_text_topology(in);
    // One entry a transition state. <Triples> is the older layout, without the self-loop's pdf.
    const std::string layout = in.take_token();
    if (layout != "<Tuples>" && layout != "<Triples>") in.fail("<Tuples> or <Triples>", layout);
    const int32_t n_transition_states = take_count(in, "a number of transition states");
    for (int32_t i = 0; i < n_transition_states; ++i) {
      const int32_t phone = in.take_int();
      const int32_t hmm_state = in.take_int();
      in.take_int();  // pdf
      if (layout == "<Tuples>") in.take_int();
      const Hmm* hmm = topology.hmm(phone);
      if (hmm == nullptr) in.fail("a phone of the topology", std::to_string(phone));
      if (hmm_state < 0 || hmm_state >= static_cast<int32_t>(hmm->size()))
        in.fail("an HMM state of phone " + std::to_string(phone), std::to_string(hmm_state));
      // Transition-ids count the transitions of the first transition state, then those of the second, ...
      for (int32_t to : (*hmm)[hmm_state])
        ids_.push_back({phone, to + 1 == static_cast<int32_t>(hmm->size()), to == hmm_state});
    }
    in.expect(layout == "<Tuples>" ? "</Tuples>" : "</Triples>");
  } catch (const Truncated&) {
    throw FormatError(name + ": byte " + std::to_string(n) +
                      ": expected more of a transition model, got the end: the file is cut short");
  }
}

}  // namespace kaldi_punct
