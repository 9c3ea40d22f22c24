// Usage: what to say of a command line that cannot be understood, in one line.
#pragma once
#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace shardsim {

/// What to say of a first word that is neither an option nor a command; empty if it is one.
std::string unknown_command(const CLI::App&, int argc, const char* const* argv);

/// From then on every option that takes a number or a SHARE refuses what is none, and says so; and so does every flag (on, off).
void check_values(CLI::App&);

/// What CLI11 found wrong, with the command, the option and where to read on: one line, without its end.
std::string usage_error(const CLI::App&, const CLI::ParseError&);

}  // namespace shardsim
