// Report: a run's results as one page that needs nothing beside itself. Every number in it comes from the folder's files.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace shardsim {

/// The page for a results folder, as HTML; empty if the program was built without it (no npm). Throws ScenarioError for a folder
/// that no run wrote.
std::string report_page(const std::filesystem::path& folder);

/// What the page draws: the summary, and of each scheme what its CSV files say, thinned to what a screen shows.
nlohmann::ordered_json report_data(const std::filesystem::path& folder);

/// The page around any data that web/ knows to draw; empty as above.
std::string page_with(const nlohmann::ordered_json& data);

/// What to say where there is no page.
inline constexpr char no_page[] = "this shardsim was built without the page; install nodejs and npm, then build it again";

/// The page's HTML with a marker where the data go; empty in a program that was built without npm. Defined by web/ at build time.
extern const char* const report_template;

}  // namespace shardsim
