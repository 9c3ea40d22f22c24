// A file's bytes, as they are.
#pragma once
#include <filesystem>
#include <string>

namespace shardsim::formats {

/// Throws ScenarioError ("path: ...") for a missing or unreadable file, a folder, and one of fewer than two bytes: a token and the
/// one that follows it.
std::string read_bytes(const std::filesystem::path&);

}  // namespace shardsim::formats
