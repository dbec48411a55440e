#include "archive.h"

#include <cstring>

#include "byte_cursor.h"
#include "errors.h"
#include "fst_binary.h"
#include "fst_text.h"
#include "text.h"

namespace kaldi_punct {
namespace {

constexpr size_t kMaxKeyBytes = 4096;  // no real key comes near; garbage without a blank does

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Kaldi marks binary files with "\0B"; lattice tables go without, but other writers may put it.
void skip_binary_mark(ByteCursor& in) {
  if (in.left() >= 2 && in.at()[0] == '\0' && in.at()[1] == 'B') in.skip(2);
}

// Reads a value of either form. In an archive a text value begins with the newline behind its key.
Lattice read_value(ByteCursor& in, bool needs_empty_line) {
  skip_binary_mark(in);
  in.need(1);
  if (static_cast<unsigned char>(*in.at()) == kFstMagicByte) return read_binary(in);
  if (!is_blank(*in.at()) && needs_empty_line)
    throw LatticeError("expected a lattice (OpenFst's magic number, or a newline before its text), got other bytes",
                       in.offset());
  while (in.left() > 0 && is_blank(*in.at())) {
    const bool was_newline = *in.at() == '\n';
    in.skip(1);
    if (was_newline) break;
  }
  return read_text(in, needs_empty_line);
}

}  // namespace

std::string located(const std::string& name, const std::string& key, uint64_t offset, const std::string& text) {
  std::string s = name.empty() ? "" : name + ": ";
  if (!key.empty()) s += key + ": ";
  s += "byte " + std::to_string(offset);
  return text.empty() ? s : s + ": " + text;
}

Lattice parse_value(const char* bytes, size_t n, const std::string& origin) {
  ByteCursor in(bytes, bytes + n, 0);
  try {
    Lattice lattice = read_value(in, false);
    while (in.left() > 0 && is_blank(*in.at())) in.skip(1);
    if (in.left() > 0)
      throw LatticeError("expected the end after one lattice, got " + std::to_string(in.left()) + " more bytes",
                         in.offset());
    lattice.origin = located(origin, "", 0, "");
    return lattice;
  } catch (const Truncated&) {
    throw LatticeError(located(origin, "", n,
                               n == 0 ? "expected a lattice, got nothing"
                                      : "expected more of the lattice, got the end: it is cut short"),
                       n);
  } catch (const LatticeError& e) {
    throw LatticeError(located(origin, "", e.offset, e.what()), e.offset);
  }
}

void ArchiveReader::feed(const char* bytes, size_t n) {
  buffer_.erase(0, at_);
  base_ += at_;
  at_ = 0;
  buffer_.append(bytes, n);
}

std::optional<ArchiveEntry> ArchiveReader::next() {
  if (broken_) return std::nullopt;
  std::string key;
  size_t value_at = at_;
  if (has_keys_ && (!skip_blanks() || !take_key(&key, &value_at))) return std::nullopt;
  try {
    return take_value(key, value_at);
  } catch (const Truncated&) {
    if (!ended_) return std::nullopt;
    fail(key, base_ + buffer_.size(),
         "expected more of the lattice, got the end: the archive is cut short"
         " (a text lattice ends with an empty line)");
  }
}

bool ArchiveReader::skip_blanks() {
  while (at_ < buffer_.size() && is_blank(buffer_[at_])) ++at_;
  return at_ < buffer_.size();
}

bool ArchiveReader::take_key(std::string* key, size_t* value_at) {
  size_t end = at_;
  while (end < buffer_.size() && !is_blank(buffer_[end])) ++end;
  if (end - at_ > kMaxKeyBytes)
    fail("", base_ + at_, "expected a key and a blank, got other bytes; is this a lattice archive?");
  if (end == buffer_.size()) {
    if (ended_) fail("", base_ + end, "expected a key and a lattice, got the end: the archive is cut short");
    return false;
  }
  key->assign(buffer_, at_, end - at_);
  if (!is_utf8(*key)) fail("", base_ + at_, "expected a key in UTF-8, got other bytes; is this a lattice archive?");
  // A newline is the first byte of a text value, any other blank belongs to the key.
  *value_at = buffer_[end] == '\n' ? end : end + 1;
  return true;
}

ArchiveEntry ArchiveReader::take_value(const std::string& key, size_t value_at) {
  const uint64_t offset = base_ + value_at;
  ByteCursor in(buffer_.data() + value_at, buffer_.data() + buffer_.size(), offset);
  ArchiveEntry entry;
  entry.key = key;
  try {
    Lattice lattice = read_value(in, true);
    lattice.origin = located(name_, key, offset, "");
    entry.lattice = std::make_shared<const Lattice>(std::move(lattice));
  } catch (const LatticeError& e) {
    if (!e.recoverable) fail(key, e.offset, e.what());
    entry.error = located(name_, key, e.offset, e.what());
  }
  at_ = static_cast<size_t>(in.offset() - base_);
  return entry;
}

void ArchiveReader::fail(const std::string& key, uint64_t offset, const std::string& text) {
  broken_ = true;
  throw LatticeError(located(name_, key, offset, text), offset);
}

}  // namespace kaldi_punct
