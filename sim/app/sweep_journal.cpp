// SweepJournal: appended lines and POSIX record locks, which also hold between machines that share a folder.
#include "app/sweep_journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "core/error.h"
#include "formats/summary.h"

namespace shardsim {
namespace {

constexpr int most_failures = 3;
constexpr std::int64_t end_of_file = std::int64_t{1} << 62;  // who appends holds this byte; claims lie below

std::int64_t byte_of(std::uint64_t key) { return std::int64_t(key % std::uint64_t(end_of_file)); }

struct flock region(short type, std::int64_t byte) {
  struct flock lock {};
  lock.l_type = type, lock.l_whence = SEEK_SET, lock.l_start = byte, lock.l_len = 1;
  return lock;
}

}  // namespace

SweepJournal::SweepJournal(const std::filesystem::path& file)
    : file_(file), descriptor_(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) refuse(std::strerror(errno));
  struct stat about {};
  if (fstat(descriptor_, &about) != 0 || !S_ISREG(about.st_mode)) refuse("is no plain file");
}

SweepJournal::~SweepJournal() { close(descriptor_); }

void SweepJournal::refuse(const std::string& what) const {
  throw ScenarioError(file_.string() + ": " + what + "; name another folder with -o");
}

void SweepJournal::read() {
  std::string text;
  char buffer[1 << 16];
  for (ssize_t n; (n = pread(descriptor_, buffer, sizeof buffer, read_to_ + std::int64_t(text.size()))) > 0;)
    text.append(buffer, std::size_t(n));
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const char* line = text.data() + begin;
    std::uint64_t key = 0;
    if (end - begin < 18 || line[16] != ' ' || std::from_chars(line, line + 16, key, 16).ptr != line + 16) continue;
    Entry& entry = entries_[key];
    entry.outcome = text.substr(begin + 17, end - begin - 17);
    if (entry.outcome.starts_with("failed,")) ++entry.failures;
  }
  read_to_ += std::int64_t(begin);
}

const std::string* SweepJournal::find(std::uint64_t key) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  const Entry& entry = found->second;
  return entry.outcome.starts_with("failed,") && entry.failures < most_failures ? nullptr : &entry.outcome;
}

bool SweepJournal::lock(std::int64_t byte, bool waits) {
  struct flock lock = region(F_WRLCK, byte);
  if (fcntl(descriptor_, waits ? F_SETLKW : F_SETLK, &lock) == 0) return true;
  if (errno == EACCES || errno == EAGAIN || errno == EINTR) return false;
  refuse(std::string("its file system has no locks (") + std::strerror(errno) + ")");
}

void SweepJournal::unlock(std::int64_t byte) {
  struct flock lock = region(F_UNLCK, byte);
  fcntl(descriptor_, F_SETLK, &lock);
}

bool SweepJournal::claim(std::uint64_t key, bool waits) { return lock(byte_of(key), waits); }
void SweepJournal::release(std::uint64_t key) { unlock(byte_of(key)); }

void SweepJournal::add(std::uint64_t key, const std::string& outcome) {
  const std::string line = formats::hash_text(key) + " " + outcome + "\n";
  while (!lock(end_of_file, true)) {}
  read();
  // Somebody who died while writing has left a part of a line.
  if (ftruncate(descriptor_, read_to_) != 0) refuse(std::strerror(errno));
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t n = pwrite(descriptor_, line.data() + done, line.size() - done, read_to_ + std::int64_t(done));
    if (n > 0) done += std::size_t(n);
    else if (errno != EINTR) throw ScenarioError(file_.string() + ": cannot be written: " + std::strerror(errno));
  }
  unlock(end_of_file);
}

}  // namespace shardsim
