// SweepJournal: the file in which a sweep's processes, on one machine or on many, leave outcomes and agree on who does what.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace shardsim {

/// A line per outcome, "key outcome". A claim is a lock on a byte of the file that the key names: when a process dies, however it
/// dies, the system takes its locks back, and another process does what it had claimed. Locks are a process's own, so each process
/// opens the journal itself, once, and forks none that it would share it with.
class SweepJournal {
 public:
  /// Opens the file, or makes it. Throws ScenarioError.
  explicit SweepJournal(const std::filesystem::path& file);
  ~SweepJournal();
  SweepJournal(const SweepJournal&) = delete;
  SweepJournal& operator=(const SweepJournal&) = delete;

  /// Reads what has been added. A line that its writer did not finish does not count.
  void read();
  /// The outcome of the run with this key; null while there is none. A run that failed counts after its third time.
  const std::string* find(std::uint64_t key) const;

  /// False if another process has claimed the run and `waits` is off, or if a signal came. Throws ScenarioError: no locks here.
  bool claim(std::uint64_t key, bool waits);
  void release(std::uint64_t key);
  /// Adds a line. A failed run's outcome is one of several tries. Throws ScenarioError: disk full.
  void add(std::uint64_t key, const std::string& outcome);

 private:
  struct Entry {
    std::string outcome;
    int failures = 0;
  };
  bool lock(std::int64_t byte, bool waits);
  void unlock(std::int64_t byte);
  [[noreturn]] void refuse(const std::string& what) const;

  std::filesystem::path file_;
  int descriptor_;
  std::int64_t read_to_ = 0;  // behind the last whole line
  std::map<std::uint64_t, Entry> entries_;
};

}  // namespace shardsim
