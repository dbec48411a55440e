#include "lexicon.h"

#include <algorithm>
#include <string_view>

#include "errors.h"
#include "numbers.h"
#include "text.h"

namespace kaldi_punct {
namespace {

uint64_t hash_of(int32_t a, int32_t b) { return mix(mix(17, static_cast<uint32_t>(a)), static_cast<uint32_t>(b)); }

// False if the line is no list of two words and phones.
bool parse_line(const std::vector<std::string_view>& fields, std::vector<int32_t>* line) {
  line->clear();
  for (const std::string_view field : fields) {
    int64_t value = 0;
    // Words may be 0, phones not.
    if (!parse_int(field, &value) || value < (line->size() < 2 ? 0 : 1) || value > INT32_MAX) return false;
    line->push_back(static_cast<int32_t>(value));
  }
  return line->size() >= 2;
}

}  // namespace

Lexicon::Lexicon(const char* bytes, size_t n, const std::string& name) {
  std::string_view left(bytes, n);
  std::vector<std::string_view> fields;
  std::vector<int32_t> numbers;
  for (size_t line_number = 1; !left.empty(); ++line_number) {
    const size_t end = left.find('\n');
    const std::string_view line = left.substr(0, end);
    left.remove_prefix(end == std::string_view::npos ? left.size() : end + 1);
    split_fields(line, &fields);
    const std::string where = name + ":" + std::to_string(line_number) + ": ";
    if (!parse_line(fields, &numbers))
      throw FormatError(where + "expected '<word-id> <new-word-id> <phone-id> ...', got '" + printable(line, 60) +
                        "'; give phones/align_lexicon.int of the lang directory");
    const std::string problem = add(numbers);
    if (!problem.empty()) throw FormatError(where + problem);
  }
  if (words_.empty()) throw FormatError(name + ":1: expected words and their phones, got an empty file");
}

std::string Lexicon::add(const std::vector<int32_t>& line) {
  const int32_t word = line[0], n_phones = static_cast<int32_t>(line.size()) - 2;
  if (word == 0 && n_phones == 0) return "expected phones of word 0 (silence), got none; leave the line out";
  int32_t node = kRoot;
  for (int32_t i = 0; i < n_phones; ++i) {
    if (i > 0) entry(node, word).is_begun = true;
    node = extend(node, line[static_cast<size_t>(i) + 2]);
  }
  Entry& whole = entry(node, word);
  if (whole.is_whole && whole.new_word != line[1])
    return "expected one new word for word " + std::to_string(word) + " with these phones, got " +
           std::to_string(whole.new_word) + " and " + std::to_string(line[1]) + "; leave one out";
  whole.is_whole = true;
  whole.new_word = line[1];
  count(word, n_phones);
  return "";
}

int32_t Lexicon::next(int32_t node, int32_t phone) const {
  return node_index_.find(hash_of(node, phone), [&](int32_t i) {
    return nodes_[static_cast<size_t>(i)].parent == node && nodes_[static_cast<size_t>(i)].phone == phone;
  });
}

Lexicon::Entry Lexicon::find(int32_t node, int32_t word) const {
  const int32_t i = find_item(node, word);
  return i < 0 ? Entry{} : items_[static_cast<size_t>(i)].entry;
}

const Lexicon::Lengths* Lexicon::lengths(int32_t word) const {
  const int32_t i = find_word(word);
  return i < 0 ? nullptr : &words_[static_cast<size_t>(i)].lengths;
}

int32_t Lexicon::extend(int32_t node, int32_t phone) {
  const int32_t found = next(node, phone);
  if (found >= 0) return found;
  const int32_t made = static_cast<int32_t>(nodes_.size());
  nodes_.push_back({node, phone});
  node_index_.add(hash_of(node, phone), made);
  return made;
}

Lexicon::Entry& Lexicon::entry(int32_t node, int32_t word) {
  int32_t i = find_item(node, word);
  if (i < 0) {
    i = static_cast<int32_t>(items_.size());
    items_.push_back({node, word, {}});
    item_index_.add(hash_of(node, word), i);
  }
  return items_[static_cast<size_t>(i)].entry;
}

void Lexicon::count(int32_t word, int32_t n_phones) {
  const int32_t i = find_word(word);
  if (i < 0) {
    word_index_.add(hash_of(word, 0), static_cast<int32_t>(words_.size()));
    words_.push_back({word, {n_phones, n_phones}});
    return;
  }
  Lengths& lengths = words_[static_cast<size_t>(i)].lengths;
  lengths = {std::min(lengths.least, n_phones), std::max(lengths.most, n_phones)};
}

int32_t Lexicon::find_word(int32_t word) const {
  return word_index_.find(hash_of(word, 0), [&](int32_t i) { return words_[static_cast<size_t>(i)].word == word; });
}

int32_t Lexicon::find_item(int32_t node, int32_t word) const {
  return item_index_.find(hash_of(node, word), [&](int32_t i) {
    return items_[static_cast<size_t>(i)].node == node && items_[static_cast<size_t>(i)].word == word;
  });
}

}  // namespace kaldi_punct
