// Reads a table of lattices ("<key> <value><key> <value>...", binary and text values in any order) from bytes that
// arrive in pieces. Holds the bytes of one entry and of the newest piece, no more.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lattice.h"

namespace kaldi_punct {

struct ArchiveEntry {
  std::string key;
  std::shared_ptr<const Lattice> lattice;  // null: it could not be read, and `error` says why
  std::string error;
};

class ArchiveReader {
 public:
  // name: of the archive, for error texts. has_keys: false for a bare value, as a script file's offset leads to.
  explicit ArchiveReader(std::string name, bool has_keys = true) : name_(std::move(name)), has_keys_(has_keys) {}

  void feed(const char* bytes, size_t n);
  void end() { ended_ = true; }

  // The next entry; nothing if more bytes are needed, or none are left after end(). Throws LatticeError where the
  // stream is broken: the entries behind that place cannot be found.
  std::optional<ArchiveEntry> next();

  // Bytes held that belong to an unfinished entry.
  size_t n_pending() const { return buffer_.size() - at_; }

 private:
  bool skip_blanks();
  bool take_key(std::string* key, size_t* value_at);
  ArchiveEntry take_value(const std::string& key, size_t value_at);
  [[noreturn]] void fail(const std::string& key, uint64_t offset, const std::string& text);

  std::string name_;
  bool has_keys_;
  bool ended_ = false;
  bool broken_ = false;
  std::string buffer_;
  size_t at_ = 0;      // of the next entry in buffer_
  uint64_t base_ = 0;  // of buffer_ in the stream
};

// "<name>: <key>: byte <offset>: <text>", without the parts that are empty.
std::string located(const std::string& name, const std::string& key, uint64_t offset, const std::string& text);

// One value, whole; `origin` goes before its error texts. Throws LatticeError.
Lattice parse_value(const char* bytes, size_t n, const std::string& origin);

}  // namespace kaldi_punct
