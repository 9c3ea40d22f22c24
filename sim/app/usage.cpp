// Usage: CLI11's errors in one line, and the nearest command to a wrong word.
#include "app/usage.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <vector>

#include "app/fields.h"
#include "core/nearest.h"

namespace shardsim {
namespace {

/// What CLI11 would take, too: nothing for 0, infinity, the hexadecimal.
std::string refusal_of_number(const std::string& text) { return number_in(text) ? "" : quoted(text) + " is no number"; }
std::string refusal_of_whole_number(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? "" : quoted(text) + " is no whole number, or too large a one";
}
std::string refusal_of_any_share(const std::string& text) { return share_in(text) ? "" : refusal_of_share(text); }
/// What CLI11 would take, too: every number, with 3 for true.
std::string refusal_of_truth(const std::string& text) {
  for (const char* known : {"true", "false", "on", "off"})
    if (text == known) return {};
  return quoted(text) + " is neither on nor off; a flag needs no value";
}
std::string refusal_of_path(const std::string& text) {
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    return quoted(text) + " has a line break or another control character; choose another name";
  return text.empty() ? "'' names nothing; name a place, or leave it out" : "";
}

}  // namespace

std::string unknown_command(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2 || argv[1][0] == '-') return {};
  const std::string word = argv[1];
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  if (std::count(names.begin(), names.end(), word) > 0) return {};
  const std::string meant = nearest(word, names, 2), likely = meant.empty() ? ";" : "; did you mean " + meant + "?";
  return "shardsim: there is no command " + quoted(word) + likely + " The commands are " + joined(names);
}

void check_values(CLI::App& app) {
  std::vector<CLI::App*> commands = app.get_subcommands(nullptr);
  commands.push_back(&app);
  for (CLI::App* command : commands)
    for (CLI::Option* option : command->get_options()) {
      if (option->get_type_name().starts_with("INT")) option->check(refusal_of_whole_number);
      if (option->get_type_name().starts_with("FLOAT")) option->check(refusal_of_number);
      if (option->get_type_name() == "SHARE") option->check(refusal_of_any_share);
      if (option->get_items_expected_max() == 0) option->check(refusal_of_truth);
      if (option->get_type_name() == "FILE" || option->get_type_name() == "DIR") option->check(refusal_of_path);
    }
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  const CLI::App& command = parsed.empty() ? app : *parsed.front();
  const std::string words = parsed.empty() ? "shardsim" : "shardsim " + command.get_name();
  std::string what = error.what();
  std::replace_if(
      what.begin(), what.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  return words + ": " + what + "; '" + words + " --help' says what there is";
}

}  // namespace shardsim
