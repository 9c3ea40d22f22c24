// A file that is written as a whole or not at all.
#pragma once
#include <filesystem>
#include <string>

namespace shardsim {

/// What a command writes; `mark` stands in the first 4 KiB of every such file.
struct FileKind {
  const char *name, *mark;
};
inline constexpr FileKind page_file{"page of shardsim", "<title>shardsim report</title>"};
inline constexpr FileKind platform_file{"platform file", "<platform"};
inline constexpr FileKind calibration_file{"file of shardsim calibrate", "# Written by `shardsim calibrate`"};

/// Throws ScenarioError if something lies there that is not of this kind, and not empty: an earlier file of a command is replaced,
/// a scenario or a result never.
void check_replaceable(const std::filesystem::path&, const FileKind&);

/// Checks the same, writes beside the place and renames. Throws ScenarioError "path: cannot be written: why"; nothing half-written
/// is left behind.
void write_whole_file(const std::filesystem::path&, const FileKind&, const std::string& text);

}  // namespace shardsim
