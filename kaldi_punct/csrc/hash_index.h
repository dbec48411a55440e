// Finds the number of a thing by its hash: open addressing, the things themselves lie elsewhere.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace kaldi_punct {

inline uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9E3779B97F4A7C15u;
  return h ^ (h >> 32);
}

inline uint64_t hash_ints(uint64_t h, const int32_t* ints, size_t n) {
  for (; n >= 2; n -= 2, ints += 2) {
    uint64_t two;
    std::memcpy(&two, ints, sizeof two);
    h = mix(h, two);
  }
  return n == 0 ? h : mix(h, static_cast<uint32_t>(*ints));
}

class HashIndex {
 public:
  explicit HashIndex(size_t n_expected = 16) { slots_.resize(size_for(n_expected)); }

  // The number for which same(number) holds, of those put in with this hash; -1 if there is none.
  template <class Same>
  int32_t find(uint64_t hash, Same same) const {
    const size_t mask = slots_.size() - 1;
    for (size_t i = hash & mask; slots_[i].number >= 0; i = (i + 1) & mask)
      if (slots_[i].hash == hash && same(slots_[i].number)) return slots_[i].number;
    return -1;
  }

  void add(uint64_t hash, int32_t number) {
    if (2 * (n_ + 1) > slots_.size()) grow();
    put({hash, number});
    ++n_;
  }

 private:
  struct Slot {
    uint64_t hash = 0;
    int32_t number = -1;
  };

  static size_t size_for(size_t n) {
    size_t size = 16;
    while (size < 2 * n) size *= 2;
    return size;
  }

  void put(Slot slot) {
    const size_t mask = slots_.size() - 1;
    size_t i = slot.hash & mask;
    while (slots_[i].number >= 0) i = (i + 1) & mask;
    slots_[i] = slot;
  }

  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    std::swap(old, slots_);
    for (const Slot& slot : old)
      if (slot.number >= 0) put(slot);
  }

  std::vector<Slot> slots_;  // a power of two
  size_t n_ = 0;
};

}  // namespace kaldi_punct
