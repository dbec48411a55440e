// The pronunciations of words as an aligner needs them: Kaldi's phones/align_lexicon.int.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hash_index.h"

namespace kaldi_punct {

// A tree of phones: a node stands for a sequence of them, the root for none.
class Lexicon {
 public:
  struct Entry {
    int32_t new_word = 0;   // goes in place of the word
    bool is_whole = false;  // the word is pronounced so
    bool is_begun = false;  // a pronunciation of the word begins so and goes on
  };

  struct Lengths {
    int32_t least = 0;
    int32_t most = 0;
  };

  // Reads lines "<word> <new word> <phone> <phone> ..."; word 0 stands for silence. Throws FormatError
  // "<name>:<line>: ...".
  Lexicon(const char* bytes, size_t n, const std::string& name);

  static constexpr int32_t kRoot = 0;

  // The node of one phone more; -1 if no pronunciation begins so.
  int32_t next(int32_t node, int32_t phone) const;

  // What the lexicon knows of a word with a node's phones.
  Entry find(int32_t node, int32_t word) const;

  // Numbers of phones in a word's pronunciations; null if the lexicon does not know the word.
  const Lengths* lengths(int32_t word) const;

 private:
  struct Node {
    int32_t parent;
    int32_t phone;
  };
  struct Item {
    int32_t node;
    int32_t word;
    Entry entry;
  };
  struct Word {
    int32_t word;
    Lengths lengths;
  };

  // Adds a line; the text of what is wrong with it, or "".
  std::string add(const std::vector<int32_t>& line);
  int32_t extend(int32_t node, int32_t phone);
  Entry& entry(int32_t node, int32_t word);
  void count(int32_t word, int32_t n_phones);
  int32_t find_word(int32_t word) const;
  int32_t find_item(int32_t node, int32_t word) const;

  std::vector<Node> nodes_{{-1, 0}};
  std::vector<Item> items_;
  std::vector<Word> words_;
  HashIndex node_index_;
  HashIndex item_index_;
  HashIndex word_index_;
};

}  // namespace kaldi_punct
