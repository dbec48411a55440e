#include "watch.h"

#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

// Of the sanitizers' runtime; GCC brings no header for all of these.
extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, size_t),
                                              void (*on_free)(const volatile void*));
size_t __sanitizer_get_allocated_size(const volatile void* p);
void __sanitizer_set_death_callback(void (*callback)());
}

namespace {

constexpr size_t kMapSize = 1 << 16;
constexpr int kMostSeconds = 10;  // of CPU, for an input of a few kilobytes: thousands of times what one takes

uint8_t map[kMapSize];   // how often each edge was taken in this run
uint8_t seen[kMapSize];  // counts met so far, a bit for each magnitude
uintptr_t previous = 0;
bool running = false;

std::string findings = ".";
const std::string* target = nullptr;
const std::string* input = nullptr;
size_t most_bytes = 0;
size_t allocated = 0;

uint8_t magnitude(uint8_t count) {
  if (count < 4) return static_cast<uint8_t>(1 << count >> 1);
  if (count < 8) return 8;
  if (count < 16) return 16;
  if (count < 32) return 32;
  return count < 128 ? 64 : 128;
}

[[noreturn]] void stop(const char* reason) {
  running = false;
  std::fprintf(stderr, "fuzz: %s: input kept as %s\n", reason, kaldi_punct::fuzz::save_input(reason).c_str());
  _exit(1);
}

void on_malloc(const volatile void*, size_t n) {
  if (!running) return;
  allocated += n;
  if (allocated <= most_bytes) return;
  stop("allocation");
}

void on_free(const volatile void* p) {
  if (!running || p == nullptr) return;
  const size_t n = __sanitizer_get_allocated_size(p);
  allocated -= n < allocated ? n : allocated;
}

void on_death() {
  if (!running) return;
  running = false;
  std::fprintf(stderr, "fuzz: input kept as %s\n", kaldi_punct::fuzz::save_input("sanitizer").c_str());
}

void set_timer(int seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = seconds;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

}  // namespace

// GCC puts a call of this at each branch of the core (-fsanitize-coverage=trace-pc).
extern "C" __attribute__((no_sanitize("address", "undefined"))) void __sanitizer_cov_trace_pc() {
  const uintptr_t here = reinterpret_cast<uintptr_t>(__builtin_return_address(0)) * 0x9e3779b1u >> 8;
  uint8_t& count = map[(here ^ previous) % kMapSize];
  if (count < 255) ++count;
  previous = here >> 1;
}

namespace kaldi_punct::fuzz {

void watch_findings(const std::string& directory) {
  findings = directory;
  __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  __sanitizer_set_death_callback(on_death);
  std::signal(SIGPROF, [](int) { stop("hang"); });
}

void begin_run(const std::string& of_target, const std::string& of_input, size_t most_allocated_bytes) {
  target = &of_target;
  input = &of_input;
  most_bytes = most_allocated_bytes;
  allocated = 0;
  previous = 0;
  std::memset(map, 0, sizeof(map));
  set_timer(kMostSeconds);
  running = true;
}

void allow_allocations() { most_bytes = SIZE_MAX; }

bool end_run() {
  running = false;
  set_timer(0);
  bool is_new = false;
  for (size_t i = 0; i < kMapSize; ++i) {
    const uint8_t bit = map[i] == 0 ? 0 : magnitude(map[i]);
    if ((seen[i] | bit) == seen[i]) continue;
    seen[i] |= bit;
    is_new = true;
  }
  return is_new;
}

std::string save_input(const char* reason) {
  uint32_t hash = 2166136261u;
  for (char c : *input) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  char path[1024];
  std::snprintf(path, sizeof(path), "%s/%s-%s-%08x", findings.c_str(), target->c_str(), reason, hash);
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || write(file, input->data(), input->size()) < 0) std::perror(path);
  if (file >= 0) close(file);
  return path;
}

size_t n_edges_reached() {
  size_t n = 0;
  for (uint8_t bits : seen) n += bits != 0;
  return n;
}

}  // namespace kaldi_punct::fuzz
